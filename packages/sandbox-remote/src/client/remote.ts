import { type Isolation, type SandboxLimit, ToolError } from '@gantry/contract'
import { type Check, callback, either, listOf, part, ruled, text } from '@gantry/core/internal/options/option'
import { optionsCheck, refuse } from '@gantry/core/internal/options/options'
import { follow } from '@gantry/core/internal/resilience/abort'
import {
  isolations,
  meets,
  type Probe,
  type Refusal,
  type Runtime,
  type Sandbox,
  type SandboxSpec,
  stronger,
} from '@gantry/core/internal/runtimes/runtime'
import { keyIdMember, keyRule, urlFault } from '../protocol/address.ts'
import type { OfferedRuntime } from '../protocol/documents.ts'
import { type ClientTls, ConnectionLost, createHostClient, HostRefusal } from './host-client.ts'
import { createRemoteHost, type RemoteHost } from './remote-host.ts'

/**
 * Runs programs on other hosts, in runtimes that `gantry runtime serve` offers there. Each sandbox is opened on the host
 * with the least load that serves it; the isolation is that of the runtime which the host selects, never below the floor.
 * - Concurrency: any number of sandboxes.
 * - Cancellation: the host kills all processes of the sandbox.
 * - Errors: OUTCOME_UNKNOWN for a program that was sent to a host of which nothing more is known; it is never run twice.
 * - Ownership: `close` ends all sandboxes of this process on the hosts.
 * Throws CONFIG_INVALID with the path of each wrong option.
 */
export function createRemoteRuntime(options: RemoteOptions | readonly RemoteOptions[]): Runtime {
  const list = [options].flat()
  checkRemoteOptions(list)
  const hosts = list.map(hostOf)
  const closing = new AbortController()
  const closedError = (): ToolError =>
    new ToolError('RUNTIME_UNAVAILABLE', 'The remote runtime is closed.', { retryable: false })

  const offered = (): readonly OfferedRuntime[] => hosts.flatMap(({ offers = [] }) => offers)
  /** Those that may serve the spec, the least loaded first; a host that rests is tried when no other is left. */
  const candidates = (spec: SandboxSpec): readonly RemoteHost[] => {
    const rank = { ready: 0, unavailable: 1, draining: 2 } as const
    return hosts
      .filter(({ offers }) => offers === undefined || offers.some((one) => lackOf(one, spec) === undefined))
      .toSorted((one, other) => rank[one.availability] - rank[other.availability] || one.load - other.load)
  }
  const openAny = async (spec: SandboxSpec, signal: AbortSignal): Promise<Sandbox> => {
    const failures: { readonly host: string; readonly reason: string }[] = []
    let canRecover = false
    for (const host of candidates(spec)) {
      try {
        return await host.open(spec, signal)
      } catch (error) {
        signal.throwIfAborted()
        const isElsewhere = ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE'
        if (!isElsewhere && !(error instanceof ConnectionLost) && !(error instanceof HostRefusal)) throw error
        canRecover ||= !isElsewhere || error.retryable
        failures.push({ host: host.name, reason: error.message })
      }
    }
    const reasons = failures.map(({ reason }) => reason.replace(/\.$/, '')).join('; ')
    throw new ToolError('RUNTIME_UNAVAILABLE', `No remote host opens this sandbox: ${reasons || 'none serves it'}.`, {
      details: { hosts: failures },
      retryable: canRecover,
    })
  }
  return {
    kind: 'remote',
    elsewhere: true,
    cost: 15,
    programs: ['code', 'argv', 'script'],
    idleBytes: () => idleBytes,
    get isolation() {
      return offered().reduce<Isolation>((best, { isolation }) => stronger(isolation, best), 'none')
    },
    probe: (signal) => probeHosts(hosts, signal),
    refuses(spec) {
      if (spec.network !== 'none') return noNetwork
      const known = offered()
      if (known.length === 0) return undefined
      const lacks = known.map((one) => lackOf(one, spec))
      return lacks.includes(undefined) ? undefined : lacks[0]
    },
    async open(spec, given) {
      given.throwIfAborted()
      if (closing.signal.aborted) throw closedError()
      if (spec.network !== 'none')
        throw new ToolError('RUNTIME_UNAVAILABLE', `${noNetwork.reason} ${noNetwork.remedy}`, { retryable: false })
      const { signal, leave } = follow(given, closing.signal)
      return openAny(spec, signal).finally(leave)
    },
    async close() {
      closing.abort(closedError())
      await Promise.all(hosts.map((host) => host.close()))
    },
  }
}

/** Memory of a waiting sandbox in this process; the sandbox itself uses memory of the host. */
const idleBytes = 65_536

/** The guard of egress and the secrets are in this process; to dial on the host would be past both. */
const noNetwork: Refusal = {
  reason: 'A program on another host gets no network, because the egress policy and its guard are in this process.',
  remedy: 'Ask for no network, or use a local runtime.',
}

function hostOf({ url, keyId, key, tls }: RemoteOptions): RemoteHost {
  const target = new URL(url)
  let text: Promise<string> | undefined
  const secret = (): Promise<string> => {
    text ??= typeof key === 'string' ? Promise.resolve(key) : key()
    text.catch(() => {
      text = undefined
    })
    return text
  }
  const signing = async () => ({ id: keyId, key: await secret() })
  const client = createHostClient({ url: target, key: signing, ...(tls === undefined ? {} : { tls }) })
  return createRemoteHost(target.host, client)
}

/** Why a runtime of a host does not serve a spec. */
export function lackOf(offer: OfferedRuntime, spec: SandboxSpec): Refusal | undefined {
  const { kind, isolation } = offer
  const { language, session, gateway, deterministic, strict, floor = 'none' } = spec
  const lacks = (what: string, remedy: string): Refusal => ({ reason: `${kind} on the host ${what}.`, remedy })
  if (!meets(isolation, stronger(floor, 'wasm'))) {
    return lacks(
      `has the isolation ${isolation}, and at least ${floor} is required`,
      'Configure a stronger runtime on a host.',
    )
  }
  if (strict === true && !offer.strict)
    return lacks('does not enforce every limit by the kernel', 'Name another profile than hardened.')
  if (language === undefined) return offer.commands ? undefined : lacks('runs no commands', 'Offer process on a host.')
  const has = (list: readonly string[], what: string): Refusal | undefined =>
    list.includes(language) ? undefined : lacks(`${what} ${language}`, 'Use another language or another runtime.')
  return (
    has(offer.languages, 'does not run') ??
    (session === true ? has(offer.sessions, 'has no sessions in') : undefined) ??
    (gateway === true ? has(offer.gateways, 'has no programs over tools in') : undefined) ??
    (deterministic === undefined ? undefined : has(offer.deterministic, 'runs no deterministic programs in'))
  )
}

async function probeHosts(hosts: readonly RemoteHost[], signal: AbortSignal): Promise<Probe> {
  const asked = await Promise.all(hosts.map((host) => probeHost(host, signal)))
  signal.throwIfAborted()
  // The strongest first: its mechanisms and attacks are those that are shown.
  const offers = asked
    .flatMap((one) => ('offers' in one ? one.offers : []))
    .toSorted((one, other) => isolations.indexOf(other.isolation) - isolations.indexOf(one.isolation))
  const failures = asked.flatMap((one) => ('failure' in one ? [one.failure] : []))
  const [first] = offers
  if (first === undefined) {
    const reason = failures.join(' ') || 'No host offers a runtime that works.'
    return { available: false, reason, remedy: 'Start `gantry runtime serve` there, and compare url, keyId and key.' }
  }
  const reached = asked.length - failures.length
  const kinds = [...new Set(offers.map(({ kind }) => kind))].join(', ')
  const unreached = failures.length === 0 ? '' : `; ${failures.join(' ')}`
  const startMs = Math.min(
    ...asked.flatMap((one) => ('offers' in one ? one.offers.map((each) => each.startMs + one.tripMs) : [])),
  )
  return {
    available: true,
    version: `${kinds} on ${reached} of ${asked.length} ${asked.length === 1 ? 'host' : 'hosts'}${unreached}`,
    startMs: Math.round(startMs * 100) / 100,
    limits: inAll(offers),
    languages: [...new Set(offers.flatMap(({ languages }) => languages))],
    attacks: first.attacks,
  }
}

type Asked = { readonly offers: readonly OfferedRuntime[]; readonly tripMs: number } | { readonly failure: string }

/** The time of a round trip, of a second request: the first one may have started and attacked every runtime of the host. */
async function probeHost(host: RemoteHost, signal: AbortSignal): Promise<Asked> {
  try {
    await host.probe(signal)
    const before = performance.now()
    const offers = await host.probe(signal)
    return { offers, tripMs: performance.now() - before }
  } catch (error) {
    return { failure: `${error instanceof Error ? error.message : String(error)}.`.replace(/\.\.$/, '.') }
  }
}

/** The limits that every runtime enforces, with the mechanisms of the first one. */
export function inAll(offers: readonly OfferedRuntime[]): OfferedRuntime['limits'] {
  const [first, ...others] = offers
  const entries = Object.entries(first?.limits ?? {}).filter(([name]) =>
    others.every(({ limits }) => limits[name as SandboxLimit] !== undefined),
  )
  return Object.fromEntries(entries)
}

/** One host that offers its runtimes. */
export interface RemoteOptions {
  /** `https://host:7421`; `http:` for this machine alone. */
  readonly url: string
  /** The name of the key. */
  readonly keyId: string
  /** The key itself, of at least 32 characters, or a function that finds it. */
  readonly key: string | (() => Promise<string>)
  /** Authorities other than those of the system, and a certificate for mutual TLS, each as PEM. */
  readonly tls?: ClientTls
}

const remoteCheck = optionsCheck<RemoteOptions>({
  members: {
    url: ruled(urlFault, 'a URL such as https://host:7421'),
    keyId: keyIdMember,
    key: either(callback, ruled(keyRule, 'a key or a function that finds it')),
    tls: {
      type: 'object',
      properties: { ca: text(), cert: text(), key: text() },
      additionalProperties: false,
    },
  },
  required: ['url', 'keyId', 'key'],
})
const notEmpty = part((value) => !Array.isArray(value) || value.length > 0, 'at least one host')

export const remoteListCheck: Check = bothOf(notEmpty, listOf(remoteCheck))

export function checkRemoteOptions(list: readonly RemoteOptions[]): void {
  refuse('options of createRemoteRuntime', remoteListCheck.issues(list, ''))
}

function bothOf(...checks: readonly Check[]): Check {
  return {
    fits: (value) => checks.every((check) => check.fits(value)),
    issues: (value, path) => checks.flatMap((check) => check.issues(value, path)),
  }
}
