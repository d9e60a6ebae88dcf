import { randomBytes } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import { number, whole } from '@gantry/core/internal/options/option'
import { checkOptions, optionsCheck } from '@gantry/core/internal/options/options'
import { follow } from '@gantry/core/internal/resilience/abort'
import { admitToPool, type PoolAdmission, type PoolEntry } from '@gantry/core/internal/resilience/slots'
import type { Confinement, Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import { disposeOf } from '../pools/disposals.ts'
import { systemTiming, type Timing } from '../pools/timing.ts'
import {
  createSession,
  endedError,
  type Owner,
  type Session,
  type SessionAnswer,
  type SessionInfo,
  type SessionJob,
  unusable,
} from './session.ts'

export type { Owner, SessionAnswer, SessionInfo, SessionJob } from './session.ts'

export interface SessionsOptions {
  /** Idle time after which a session ends; 10 minutes. */
  readonly idleMs?: number
  /** Longest life of a session, also in use; 4 hours. */
  readonly lifetimeMs?: number
  /** Concurrent sessions of one principal of one tenant; 8. */
  readonly maxPerPrincipal?: number
  /** Concurrent sessions of one tenant; three quarters of the total. */
  readonly maxPerTenant?: number
  /** Concurrent sessions in total; 64. */
  readonly maxTotal?: number
  /** Prefix of every id, which identifies the process of the session. */
  readonly tag?: string
  readonly timing?: Timing
}

/**
 * Interpreters that keep their state between runs, each for one principal of one tenant.
 * - Concurrency: any number of sessions; runs of one session execute in order, and a few may wait.
 * - Cancellation: the signal of a run kills the interpreter and so ends the session.
 * - Errors: INPUT_INVALID at `/session` for a session that ended, with the reason, and for one that does not exist or
 * belongs to another owner. Not DENIED, because DENIED would reveal that the session exists, and because the argument
 * must change. RATE_LIMITED for too many sessions or waiting runs.
 * - Fairness: at the total limit, the tenant with the most sessions loses its least recently used idle session to a
 * tenant with fewer; the same applies among the principals of a tenant at its limit.
 * - Ownership: an open session holds memory until it is closed, idle for too long or broken.
 */
export interface Sessions {
  open(owner: Owner, language: string, confinement: Confinement, signal: AbortSignal): Promise<SessionInfo>
  run(id: string, owner: Owner, code: string, job: SessionJob, signal: AbortSignal): Promise<SessionAnswer>
  /** Waits until the sandbox is disposed. No effect for a session that has ended. */
  close(id: string, owner: Owner): Promise<void>
  /** The open sessions of one owner, oldest first. */
  list(owner: Owner): readonly SessionInfo[]
  /** The open session; throws as `run` does. */
  info(id: string, owner: Owner): SessionInfo
  /** Number of open sessions of all owners. */
  readonly size: number
  /** The idle time and the lifetime of a session. */
  readonly times: { readonly idleMs: number; readonly lifetimeMs: number }
  /** Ends every session, also those that are opening, and waits until all are disposed. */
  closeAll(): Promise<void>
}

const time = number(1, 2_147_483_647)
const count = whole(1, 100_000)
/** The check of the lifetimes and limits of sessions. */
export const sessionsCheck = optionsCheck<Omit<SessionsOptions, 'timing' | 'tag'>>({
  members: { idleMs: time, lifetimeMs: time, maxPerPrincipal: count, maxPerTenant: count, maxTotal: count },
})
/** `retryAfterMs` of RATE_LIMITED; a guess, because a slot becomes free at any time. */
const hintMs = 1_000

/** Throws CONFIG_INVALID for invalid options. */
export function checkSessionsOptions({ tag: _tag, timing: _timing, ...given }: SessionsOptions = {}): void {
  checkOptions('options of sessions', sessionsCheck, given)
}

/** Throws CONFIG_INVALID for invalid options. */
export function createSessions(runtimes: Runtimes, options: SessionsOptions = {}): Sessions {
  const { timing = systemTiming, tag, ...given } = options
  checkOptions('options of createSessions', sessionsCheck, given)
  const { idleMs = 600_000, lifetimeMs = 14_400_000, maxPerPrincipal = 8, maxTotal = 64 } = given
  const { maxPerTenant = Math.max(maxPerPrincipal, Math.ceil(maxTotal * 0.75)) } = given
  const limits = { total: maxTotal, perTenant: maxPerTenant, perPrincipal: maxPerPrincipal }
  /** Ended sessions stay for a while, so that their owner learns why they ended. */
  const sessions = new Map<string, Session>()
  const opening = new Map<Promise<unknown>, Owner>()
  let life = new AbortController()

  const live = (): Session[] => [...sessions.values()].filter((session) => session.ended === undefined)
  /** Resolves when a slot is free, which the caller takes synchronously; throws RATE_LIMITED when there is none. */
  const admit = (owner: Owner): Promise<void> => {
    const entries: readonly Held[] = [
      ...live().map(heldBy),
      ...[...opening.values()].map((each) => ({ ...each, idle: false, usedAt: 0 })),
    ]
    // A principal's own sessions are never evicted for its next one.
    const admission = admitToPool(entries, owner, limits, { replaceOwn: false })
    if (admission.kind === 'full') throw tooMany(admission)
    const session = admission.kind === 'replace' ? admission.victim.session : undefined
    return session?.close('its slot was needed, and its tenant or principal had the most sessions') ?? Promise.resolve()
  }
  const find = (id: string, owner: Owner): Session => {
    const session = sessions.get(id)
    if (session === undefined && tag !== undefined && isElsewhere(id, tag)) throw unusable(elsewhere)
    if (session === undefined || !isSame(session.owner, owner)) throw unusable('There is no such session; open one.')
    return session
  }
  const forget = (session: Session): void => {
    timing.after(idleMs, () => sessions.delete(session.id))
    const over = [...sessions.values()].filter(({ ended }) => ended !== undefined).slice(0, -maxTotal)
    for (const { id } of over) sessions.delete(id)
  }
  const start = async (
    owner: Owner,
    language: string,
    confinement: Confinement,
    signal: AbortSignal,
  ): Promise<SessionInfo> => {
    const opened = await runtimes.open(language, confinement, signal)
    if (signal.aborted) {
      // The sandbox opened as the signal aborted; no caller would ever dispose it.
      await disposeOf(opened.sandbox)
      throw signal.reason
    }
    const random = randomBytes(24).toString('base64url')
    const id = tag === undefined ? random : `${tag}.${random}`
    const session = createSession({
      id,
      owner,
      language,
      opened,
      idleMs,
      lifetimeMs,
      timing,
      onEnd: forget,
    })
    sessions.set(id, session)
    return session.info()
  }
  return {
    async open({ principal, tenant }, language, confinement, signal) {
      const owner = { principal, tenant }
      const place = admit(owner)
      const both = follow(signal, life.signal)
      const done = place.then(() => start(owner, language, confinement, both.signal))
      opening.set(done, owner)
      try {
        return await done
      } finally {
        both.leave()
        opening.delete(done)
      }
    },
    async run(id, owner, code, job, signal) {
      const session = find(id, owner)
      return await session.run(code, job, signal)
    },
    async close(id, owner) {
      const session = find(id, owner)
      await session.close('it was closed')
      sessions.delete(id)
    },
    info(id, owner) {
      const session = find(id, owner)
      if (session.ended !== undefined) throw endedError(session.ended)
      return session.info()
    },
    get size() {
      return live().length
    },
    times: { idleMs, lifetimeMs },
    list: (owner) => live().flatMap((session) => (isSame(session.owner, owner) ? [session.info()] : [])),
    async closeAll() {
      life.abort(new ToolError('CANCELLED', 'All sessions were closed.'))
      life = new AbortController()
      await Promise.allSettled(opening.keys())
      await Promise.all([...sessions.values()].map((session) => session.close('all sessions were closed')))
    },
  }
}

/** Whether the id has the tag of another process; this process does not know that process's sessions. */
function isElsewhere(id: string, tag: string): boolean {
  return id.includes('.') && !id.startsWith(`${tag}.`)
}

const elsewhere =
  'The session is not in the process that runs this call; use it by calls of its own, or open one where it is used.'

function isSame(one: Owner, other: Owner): boolean {
  return one.principal === other.principal && one.tenant === other.tenant
}

/** A slot held by an open or opening session. */
interface Held extends PoolEntry {
  readonly session?: Session
}

function heldBy(session: Session): Held {
  const { state, idleMs } = session.info()
  return { ...session.owner, session, idle: state === 'idle', usedAt: -idleMs }
}

function tooMany({ scope, most }: PoolAdmission<Held> & { readonly kind: 'full' }): ToolError {
  const whose = { principal: ' of this caller', tenant: ' of this tenant', pool: '' }[scope]
  const remedy = scope === 'pool' ? 'try again later' : 'close one of them'
  return new ToolError('RATE_LIMITED', `${most} sessions${whose} are open; ${remedy}.`, {
    details: { retryAfterMs: hintMs },
  })
}
