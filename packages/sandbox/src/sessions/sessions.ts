import { randomBytes } from 'node:crypto'
import { ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import { checkShapes, type OptionShape } from '@gantry/core/internal/resilience/options'
import { admitToPool, type PoolAdmission, type PoolEntry } from '@gantry/core/internal/resilience/pool-share'
import type { Confinement, Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import { disposeOf } from '../pools/start.ts'
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
  /** A session that is not used for this long ends; 10 minutes. */
  readonly idleMs?: number
  /** No session lasts longer, however much it is used; 4 hours. */
  readonly lifetimeMs?: number
  /** Sessions at a time of one principal of one tenant; 8. */
  readonly maxPerPrincipal?: number
  /** Sessions at a time of one tenant; three quarters of all. */
  readonly maxPerTenant?: number
  /** Sessions at a time in all; 64. */
  readonly maxTotal?: number
  /** Prefix of every id, which says in which process a session lives. */
  readonly tag?: string
  readonly timing?: Timing
}

/**
 * Interpreters that keep their state between runs, each for one principal of one tenant.
 * - Concurrency: any number of sessions; in one of them runs go one after the other, and a few may wait.
 * - Cancellation: the signal of a run kills the interpreter, so the session ends with it.
 * - Errors: INPUT_INVALID at `/session` for a session that ended, with the reason, and for one that does not exist or
 *   belongs to another owner. That code and not DENIED, because DENIED would reveal that the session exists, and
 *   because the argument is what must change. RATE_LIMITED for too many sessions or runs that wait.
 * - Fairness: when all places are taken, the tenant that has most sessions loses the idle one that was not used for
 *   longest to a tenant that has fewer; the same among the principals of a tenant that has all that it may.
 * - Ownership: what is open holds memory until it is closed, idle for too long or broken.
 */
export interface Sessions {
  open(owner: Owner, language: string, confinement: Confinement, signal: AbortSignal): Promise<SessionInfo>
  run(id: string, owner: Owner, code: string, job: SessionJob, signal: AbortSignal): Promise<SessionAnswer>
  /** Waits until it is gone. Harmless for a session that has ended. */
  close(id: string, owner: Owner): Promise<void>
  /** Those of one owner that are open, the oldest first. */
  list(owner: Owner): readonly SessionInfo[]
  /** One that lives; throws as `run` does. */
  info(id: string, owner: Owner): SessionInfo
  /** How many are open, of all owners. */
  readonly size: number
  /** How long each may rest, and last. */
  readonly times: { readonly idleMs: number; readonly lifetimeMs: number }
  /** Ends every session, and those that are being opened; waits until all are gone. */
  closeAll(): Promise<void>
}

const timeShape: OptionShape = { kind: 'number', least: 1, most: 2_147_483_647 }
const countShape: OptionShape = { kind: 'number', least: 1, most: 100_000, whole: true }
const shapes: { readonly [Key in keyof Required<Omit<SessionsOptions, 'timing' | 'tag'>>]: OptionShape } = {
  idleMs: timeShape,
  lifetimeMs: timeShape,
  maxPerPrincipal: countShape,
  maxPerTenant: countShape,
  maxTotal: countShape,
}
/** `retryAfterMs` of RATE_LIMITED; a guess, because a slot becomes free at any time. */
const hintMs = 1_000

/** Throws CONFIG_INVALID for wrong options. */
export function checkSessionsOptions({ tag: _tag, timing: _timing, ...given }: SessionsOptions = {}): void {
  checkShapes('sessions', given, shapes)
}

/** Throws CONFIG_INVALID for wrong options. */
export function createSessions(runtimes: Runtimes, options: SessionsOptions = {}): Sessions {
  const { timing = systemTiming, tag, ...given } = options
  checkShapes('createSessions', given, shapes)
  const { idleMs = 600_000, lifetimeMs = 14_400_000, maxPerPrincipal = 8, maxTotal = 64 } = given
  const { maxPerTenant = Math.max(maxPerPrincipal, Math.ceil(maxTotal * 0.75)) } = given
  const limits = { total: maxTotal, perTenant: maxPerTenant, perPrincipal: maxPerPrincipal }
  /** Ended sessions stay for a while, so that their owner learns why they ended. */
  const sessions = new Map<string, Session>()
  const opening = new Map<Promise<unknown>, Owner>()
  let life = new AbortController()

  const live = (): Session[] => [...sessions.values()].filter((session) => session.ended === undefined)
  /** Resolves when there is a place, which the caller takes in the same turn; throws RATE_LIMITED when there is none. */
  const admit = (owner: Owner): Promise<void> => {
    const entries: readonly Held[] = [
      ...live().map(heldBy),
      ...[...opening.values()].map((each) => ({ ...each, idle: false, usedAt: 0 })),
    ]
    // What an interpreter holds is its owner's to give up, so that no caller loses a session to one of its own.
    const admission = admitToPool(entries, owner, limits, { replaceOwn: false })
    if (admission.kind === 'full') throw tooMany(admission)
    const session = admission.kind === 'replace' ? admission.victim.session : undefined
    return session?.close('its place was needed, and its tenant or principal had most of them') ?? Promise.resolve()
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

/** Whether the id has the tag of another process; this process cannot know whether that session exists. */
function isElsewhere(id: string, tag: string): boolean {
  return id.includes('.') && !id.startsWith(`${tag}.`)
}

const elsewhere =
  'The session is not in the process that runs this call; use it by calls of its own, or open one where it is used.'

function isSame(one: Owner, other: Owner): boolean {
  return one.principal === other.principal && one.tenant === other.tenant
}

/** A place that is taken, by a session or by one that is being opened. */
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
