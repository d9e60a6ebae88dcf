import { isObject } from '@gantry/contract/internal/json'
import { unavailable } from '@gantry/sandbox-containers/internal/engines/docker-client'
import type { V1PodSpec } from '@kubernetes/client-node'

/**
 * What a cluster may add to a pod: where it runs and how it is billed, never what it can reach. Everything else that is
 * not in the policy counts as a difference, also what a later version of Kubernetes adds.
 */
const mayBeAdded: ReadonlySet<string> = new Set([
  ...['nodeName', 'nodeSelector', 'affinity', 'tolerations', 'topologySpreadConstraints', 'schedulerName'],
  ...['priority', 'priorityClassName', 'preemptionPolicy', 'overhead', 'imagePullSecrets', 'os'],
  // A user namespace is stronger than none, and the default is none.
  'hostUsers',
  // The account of a pod is of no use to it while its token is not mounted.
  ...['serviceAccount', 'serviceAccountName'],
  ...['containers.terminationMessagePath', 'containers.resizePolicy'],
  ...['containers.resources.limits.ephemeral-storage', 'containers.resources.requests.ephemeral-storage'],
  'securityContext.seLinuxOptions.level',
])

/** Amounts that the API writes in another form than they were given. */
const quantities = /\.(?:limits|requests)\.[a-z-]+$|\.sizeLimit$/
const suffixes: { readonly [suffix: string]: number } = {
  m: 1e-3,
  '': 1,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
}
/** What the API leaves out when it is false; elsewhere what is absent may be true. */
const dropped: ReadonlySet<string> = new Set(['hostNetwork', 'hostPID', 'hostIPC'])
const mostDifferences = 8

/** The paths in which a pod is not as its policy says, because something in the cluster changed it. */
export function differencesOf(policy: V1PodSpec, pod: unknown): readonly string[] {
  const found: string[] = []
  compare('', '', policy, pod, found)
  return found.slice(0, mostDifferences)
}

/** Throws RUNTIME_UNAVAILABLE, so that nothing is run in such a pod. `what` names it. */
export function requirePolicy(what: string, policy: V1PodSpec, pod: unknown): void {
  const found = differencesOf(policy, pod)
  if (found.length === 0) return
  throw unavailable(
    `${what} is not as the policy of sandboxes says: ${found.join(', ')}. Nothing was run in it.`,
    'Exempt the namespace of sandboxes from the admission webhook or the controller that changes its pods and templates.',
  )
}

/** `place` is the path without indexes, `path` the one that is reported. */
function compare(path: string, place: string, wanted: unknown, actual: unknown, found: string[]): void {
  if (found.length > mostDifferences) return
  if (wanted !== false && isEmpty(wanted) && isEmpty(actual)) return
  if (wanted === false && actual === undefined && dropped.has(place)) return
  if (Array.isArray(wanted) && Array.isArray(actual)) {
    if (wanted.length !== actual.length) found.push(path)
    else for (const [index, one] of wanted.entries()) compare(`${path}[${index}]`, place, one, actual[index], found)
    return
  }
  if (isObject(wanted) && (isObject(actual) || isEmpty(actual))) {
    const given: { readonly [name: string]: unknown } = { ...(isObject(actual) ? actual : undefined) }
    for (const name of new Set([...Object.keys(wanted), ...Object.keys(given)])) {
      const below = place === '' ? name : `${place}.${name}`
      if (isEmpty(wanted[name]) && mayBeAdded.has(below)) continue
      const inside = isEmpty(wanted[name]) && canHold(below) && isObject(given[name]) ? {} : wanted[name]
      compare(path === '' ? name : `${path}.${name}`, below, inside, given[name], found)
    }
    return
  }
  if (wanted === actual) return
  if (quantities.test(place) && isSameQuantity(wanted, actual)) return
  found.push(path)
}

/** Whether something below an object that the policy does not have may be added. */
function canHold(place: string): boolean {
  for (const one of mayBeAdded) if (one.startsWith(`${place}.`)) return true
  return false
}

/** What the API leaves out where no value was given. */
function isEmpty(value: unknown): boolean {
  if (value === undefined || value === null || value === false || value === '') return true
  if (Array.isArray(value)) return value.length === 0
  return isObject(value) && Object.values(value).every(isEmpty)
}

function isSameQuantity(one: unknown, other: unknown): boolean {
  const [left, right] = [amountOf(one), amountOf(other)]
  return left !== undefined && right !== undefined && Math.abs(left - right) < 1e-6
}

function amountOf(value: unknown): number | undefined {
  const [, digits, suffix = ''] = /^(\d+(?:\.\d+)?)([a-zA-Z]{0,2})$/.exec(String(value)) ?? []
  const unit = Object.hasOwn(suffixes, suffix) ? suffixes[suffix] : undefined
  return digits === undefined || unit === undefined ? undefined : Number(digits) * unit
}
