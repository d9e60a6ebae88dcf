import { createHash } from 'node:crypto'
import { type Identity, type Isolation, type Issue, ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import { createBulkhead } from '@gantry/core/internal/resilience/bulkhead'
import type { Outcome, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import type { OpenedSandbox, RunAnswer } from '@gantry/core/internal/runtimes/runtimes'
import { disposeOf } from '../pools/disposals.ts'
import type { Timing } from '../pools/timing.ts'

/** The owner of a session. Permissions are checked before a call reaches this code. */
export type Owner = Pick<Identity, 'principal' | 'tenant'>

/** The parts of a session run other than its code. */
export type SessionJob = Omit<SandboxJob, 'program'>

/** The answer of a run, and why it ended the session, if it did. */
export type SessionAnswer = RunAnswer & {
  /** Collected files that are new, or different from the last time the owner put or received them. */
  readonly changed: ReadonlyMap<string, Uint8Array>
  readonly ended?: string
}

/** A session as its owner sees it. */
export interface SessionInfo {
  /** Unguessable. */
  readonly id: string
  readonly language: string
  readonly runtime: { readonly kind: string; readonly isolation: Isolation }
  readonly state: 'idle' | 'running'
  readonly runs: number
  readonly ageMs: number
  /** Time since the end of the last run; 0 during a run. */
  readonly idleMs: number
}

interface SessionParts {
  readonly id: string
  readonly owner: Owner
  readonly language: string
  readonly opened: OpenedSandbox
  readonly idleMs: number
  readonly lifetimeMs: number
  readonly timing: Timing
  /** Called once, when the session accepts no more runs. */
  onEnd(session: Session): void
}

/**
 * ## Session
 *
 * One interpreter and its owner. States: `idle`, `running`, `ended`.
 *
 * | from      | to        | cause                                                                       |
 * | --------- | --------- | --------------------------------------------------------------------------- |
 * | –         | `idle`    | created with an open sandbox                                                |
 * | `idle`    | `running` | `run`; further runs queue                                                   |
 * | `running` | `idle`    | the run ended                                                               |
 * | `idle`    | `ended`   | `close`, `idleMs` without a run, `lifetimeMs` reached, the interpreter died |
 * | `running` | `ended`   | `close`, the run was cancelled, reached a limit or lost its sandbox         |
 *
 * The lifetime is checked when a run ends, because each run has its own wall limit.
 */
export interface Session {
  readonly id: string
  readonly owner: Owner
  /** Why it ended, as the end of a sentence; undefined while it is open. */
  readonly ended: string | undefined
  info(): SessionInfo
  run(code: string, job: SessionJob, signal: AbortSignal): Promise<SessionAnswer>
  /** Cancels the running program and waits until the sandbox is disposed; a second call only waits. */
  close(reason: string): Promise<void>
}

/** Most queued runs; more are refused. */
const mostWaiting = 8

export function createSession(parts: SessionParts): Session {
  const { id, owner, language, opened, timing } = parts
  const { sandbox, runtime, limits } = opened
  const line = createBulkhead({ concurrency: 1, queue: mostWaiting, name: 'The session' })
  const stop = new AbortController()
  const seen = createSeenFiles()
  const openedAt = timing.now()
  let [usedAt, runs, running, lost] = [openedAt, 0, false, false]
  let ended: string | undefined
  let gone: Promise<void> | undefined
  let callOff = (): void => undefined

  const end = (reason: string): Promise<void> => {
    if (gone !== undefined) return gone
    callOff()
    ended = reason
    gone = disposeOf(sandbox)
    parts.onEnd(session)
    return gone
  }
  const rest = (): void => {
    usedAt = timing.now()
    const leftMs = openedAt + parts.lifetimeMs - usedAt
    const reason = leftMs <= parts.idleMs ? 'it reached its lifetime' : `it was not used for ${parts.idleMs} ms`
    callOff = timing.after(Math.max(0, Math.min(leftMs, parts.idleMs)), () => void end(reason))
  }
  const lose = (): void => {
    lost = true
    if (!running) void end('its interpreter ended')
  }
  const runOne = async (code: string, job: SessionJob, caller: AbortSignal): Promise<Outcome> => {
    const { signal, leave } = follow(caller, stop.signal)
    try {
      return await sandbox.run({ ...job, program: { kind: 'code', language, code } }, signal)
    } catch (error) {
      await end(signal.aborted ? 'a run in it was cancelled' : 'its sandbox broke')
      throw error
    } finally {
      leave()
    }
  }
  const session: Session = {
    id,
    owner,
    get ended() {
      return ended
    },
    info: () => ({
      id,
      language,
      runtime,
      state: running ? 'running' : 'idle',
      runs,
      ageMs: timing.now() - openedAt,
      idleMs: running ? 0 : timing.now() - usedAt,
    }),
    async run(code, job, signal) {
      const leave = await line.enter(signal)
      try {
        signal.throwIfAborted()
        if (ended !== undefined) throw endedError(ended)
        callOff()
        running = true
        runs += 1
        if (job.files !== undefined) seen.put(job.files)
        const outcome = await runOne(code, job, signal)
        if (outcome.hit !== undefined) await end(`a run in it reached its limit ${outcome.hit}`)
        else if (lost) await end('its interpreter ended')
        const changed = seen.changed(outcome.files)
        return { outcome, changed, runtime, attempts: 1, limits, ...(ended === undefined ? {} : { ended }) }
      } finally {
        if (running && ended === undefined) rest()
        running = false
        leave()
      }
    },
    async close(reason) {
      stop.abort(new ToolError('CANCELLED', `The session ended, because ${reason}.`))
      await end(reason)
    },
  }
  sandbox.ended.then(lose, lose)
  rest()
  return session
}

/** The error for a call that names an ended session. */
export function endedError(reason: string): ToolError {
  return unusable(`The session ended, because ${reason}; open a new one.`)
}

/** The error for a call that names an unusable session. */
export function unusable(message: string): ToolError {
  const issues: Issue[] = [{ path: '/session', message }]
  return new ToolError('INPUT_INVALID', message, { details: { issues } })
}

/** Digests of workspace files as the owner last put or received them. */
interface SeenFiles {
  /** Records files that the owner put into the workspace. */
  put(files: ReadonlyMap<string, Uint8Array>): void
  /** Returns the new or changed files, and records them. */
  changed(files: ReadonlyMap<string, Uint8Array>): ReadonlyMap<string, Uint8Array>
}

function createSeenFiles(): SeenFiles {
  const seen = new Map<string, string>()
  const note = (path: string, content: Uint8Array): boolean => {
    const digest = createHash('sha256').update(content).digest('base64')
    const known = seen.get(path) === digest
    seen.set(path, digest)
    return !known
  }
  return {
    put(files) {
      for (const [path, content] of files) note(path, content)
    },
    changed: (files) => new Map([...files].filter(([path, content]) => note(path, content))),
  }
}
