import { type JsonObject, type SandboxNetwork, ToolError } from '@gantry/contract'
import type { BackendCall, BackendContext } from '@gantry/core/internal/backends/backend'
import type { Egress } from '@gantry/core/internal/egress/egress'
import { quote } from '@gantry/core/internal/ids/quote'
import type { SandboxRequest } from '@gantry/core/internal/runtimes/runtimes'
import { didYouMean } from '@gantry/core/internal/search/near'
import { meet, outsideOf } from '../egress-proxy/allow.ts'
import type { SandboxedPlan } from './binding.ts'

const shortestValue = 8

type Dial = NonNullable<SandboxRequest['dial']>
type Credentials = NonNullable<SandboxedPlan['credentials']>

/**
 * The way out of one call's sandbox: what it reaches, within what its tool may, and the secrets behind its placeholders,
 * fetched for this caller and from here on kept out of everything that leaves the call.
 * - Errors: EGRESS_DENIED for origins that the tool does not name, INPUT_INVALID for credentials that it is not granted
 *   or that nothing in reach is for, SECRET_UNAVAILABLE.
 */
export async function wayOutOf(
  plan: SandboxedPlan,
  { id, args }: Pick<BackendCall, 'id' | 'args'>,
  network: SandboxNetwork = 'none',
  context: Pick<BackendContext, 'secret' | 'identity'>,
  egress: Egress | undefined,
): Promise<{ readonly dial?: Dial }> {
  const granted = plan.takes === undefined ? (plan.credentials ?? {}) : namedOf(plan.credentials ?? {}, args)
  const allow = network === 'none' ? [] : network.allow
  if (plan.egress !== undefined && plan.takes !== undefined) checkWithin(allow, plan.egress)
  if (plan.takes !== undefined) checkReach(granted, allow)
  if (egress === undefined) return {}
  const dial = { egress, owner: id, tenant: context.identity.tenant }
  if (allow.length === 0 || Object.keys(granted).length === 0) return { dial }
  return { dial: { ...dial, credentials: await fetched(granted, context) } }
}

/** Those that the call names, of those that its tool is granted: an argument never names a secret. */
function namedOf(granted: Credentials, { grants = [] }: JsonObject): Credentials {
  const names = Array.isArray(grants) ? grants : []
  const wanted = names.map((name, index) => {
    if (typeof name === 'string' && Object.hasOwn(granted, name)) return [name, granted[name]] as const
    const known = Object.keys(granted)
    const others = known.length === 0 ? 'the tool is granted none' : `the tool is granted ${known.join(', ')}`
    throw invalid(
      `/grants/${index}`,
      `${quote(String(name))} is not granted${didYouMean(String(name), known)}; ${others}`,
    )
  })
  return Object.fromEntries(wanted) as Credentials
}

/** A tool's own list narrows what its callers may ask for. */
function checkWithin(allow: readonly string[], egress: readonly string[]): void {
  const [outside] = outsideOf(allow, egress)
  if (outside === undefined) return
  const message = `The tool may reach only what it names, and ${outside} is not there; it names ${egress.join(', ') || 'nothing'}.`
  throw new ToolError('EGRESS_DENIED', message)
}

/** A credential for hosts that are out of reach is a mistake, of which the program would hear only as a wrong password. */
function checkReach(granted: Credentials, allow: readonly string[]): void {
  for (const [name, { hosts }] of Object.entries(granted)) {
    if (meet(hosts, allow)) continue
    throw invalid('/network', `must allow ${hosts.join(' or ')}, which ${name} is for`)
  }
}

function fetched(
  granted: Credentials,
  context: Pick<BackendContext, 'secret'>,
): Promise<NonNullable<Dial['credentials']>> {
  const all = Object.entries(granted).map(async ([variable, { secret, hosts, in: places }]) => {
    const value = await context.secret(secret)
    // Such a value could end a header and begin another.
    if (/\p{Cc}/u.test(value)) {
      throw new ToolError('SECRET_UNAVAILABLE', `The secret ${secret} has a character that no header can carry.`)
    }
    // A shorter one would be taken for a secret wherever a server writes the same by chance.
    if (value.length < shortestValue) {
      throw new ToolError('SECRET_UNAVAILABLE', `The secret ${secret} has fewer than ${shortestValue} characters.`)
    }
    return { variable, value: () => value, hosts, ...(places === undefined ? {} : { in: places }) }
  })
  return Promise.all(all)
}

function invalid(path: string, message: string): ToolError {
  return new ToolError('INPUT_INVALID', `The call is wrong: ${path} ${message}.`, {
    details: { issues: [{ path, message }] },
  })
}
