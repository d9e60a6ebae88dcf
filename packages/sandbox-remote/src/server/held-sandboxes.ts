import type { Isolation } from '@gantry/contract'
import { ToolError } from '@gantry/contract'
import { stronger } from '@gantry/core/internal/runtimes/runtime'
import type { Confinement, OpenedSandbox, ProgramTraits, Runtimes } from '@gantry/core/internal/runtimes/runtimes'
import { createDisposals } from '@gantry/sandbox/internal/pools/disposals'
import type { OpenedState, WireSpec } from '../protocol/documents.ts'
import type { WireJob } from '../protocol/job.ts'
import { RequestRefusal } from '../protocol/refusal.ts'
import { type RunRecord, startRun } from './run-record.ts'

export interface HeldOptions {
  readonly runtimes: Pick<Runtimes, 'take'>
  /** Sandboxes that may be open at a time. */
  readonly capacity: number
  /** How long a sandbox, or the frames of a run, is kept without a request of its client. */
  readonly keepMs: number
  /** Most bytes of frames that all runs together keep. */
  readonly mostBytes: number
  onEvent(event: HeldEvent): void
}

export type HeldEvent =
  | {
      readonly event: 'opened'
      readonly key: string
      readonly sandbox: string
      readonly runtime: string
      readonly isolation: Isolation
    }
  | { readonly event: 'run'; readonly key: string; readonly sandbox: string; readonly run: number }
  | { readonly event: 'ended'; readonly key: string; readonly sandbox: string; readonly reason: string }

/** No host offers a runtime that isolates nothing, whatever a client asks for. */
const least: Isolation = 'wasm'
/** A sandbox that was opened just now is about to be used. */
const shortestWaitMs = 1_000
/** Limits of the frames of one run except its output: messages, gateway requests, files. */
const extraBytes = 100_663_296

/**
 * ## Sandboxes that clients hold on this host
 *
 * | state     | entered when                                      | left by                                               |
 * | --------- | ------------------------------------------------- | ----------------------------------------------------- |
 * | `opening` | a client asks for it, by an id of its own         | the runtime's answer                                  |
 * | `open`    | the runtime opened it, or a run of a session ended | a run; its removal                                    |
 * | `running` | a job arrived                                     | the end of the run                                    |
 * | `spent`   | its one run ended; only its frames are kept       | its removal                                           |
 * | removed   | the client is done, its time without a request is over, or the server closes | –                          |
 */
export interface HeldSandboxes {
  /** Sandboxes that are not spent. */
  readonly open: number
  /** Opens a sandbox; a repeated request waits for the same one. */
  opened(key: string, id: string, digest: string, spec: WireSpec): Promise<OpenedState>
  /** Starts a run, or returns the one that was started by the same request. */
  start(key: string, id: string, number: number, digest: string, job: () => WireJob): Promise<RunRecord>
  /** A run that was started. Throws RUN_UNKNOWN, or SANDBOX_GONE. */
  run(key: string, id: string, number: number): RunRecord
  /** Keeps the sandbox while a response is attached to its run. */
  whileAttached(key: string, id: string, work: () => Promise<void>): Promise<void>
  /** Ends a sandbox and all of its processes. */
  remove(key: string, id: string, reason: string): Promise<void>
  /** Renews sandboxes of a client; returns those that are gone. */
  renew(key: string, ids: readonly string[]): readonly string[]
  /** Refuses new sandboxes, ends those that run nothing, and resolves when every run has ended and its client has the outcome. */
  drain(): Promise<void>
  close(): Promise<void>
}

interface Held {
  readonly key: string
  readonly id: string
  readonly digest: string
  readonly spec: WireSpec
  readonly opening: Promise<OpenedSandbox>
  readonly stop: AbortController
  /** The last run alone: a client that starts the next one has the outcome of the one before. */
  readonly runs: Map<number, RunRecord>
  started: number
  readonly openedAt: number
  state: 'opening' | 'open' | 'running' | 'spent'
  timer: NodeJS.Timeout | undefined
  attached: number
  removed: Promise<void> | undefined
}

export function createHeldSandboxes(options: HeldOptions): HeldSandboxes {
  const { runtimes, capacity, keepMs, mostBytes, onEvent } = options
  const disposals = createDisposals()
  const all = new Map<string, Held>()
  let draining: PromiseWithResolvers<void> | undefined
  let isClosed = false

  const find = (key: string, id: string): Held => {
    const held = all.get(id)
    // An id of another key is as unknown as any other.
    if (held === undefined || held.key !== key)
      throw new RequestRefusal('SANDBOX_GONE', 'The sandbox is not open here.')
    return held
  }
  const openCount = (): number => [...all.values()].filter(({ state }) => state !== 'spent').length
  const keptBytes = (): number =>
    [...all.values()].reduce((sum, { runs }) => sum + [...runs.values()].reduce((one, { bytes }) => one + bytes, 0), 0)
  const touch = (held: Held): void => {
    clearTimeout(held.timer)
    if (held.attached > 0 || held.removed !== undefined) return
    held.timer = setTimeout(() => void remove(held, 'its client sent no request in time'), keepMs).unref()
  }
  const remove = (held: Held, reason: string): Promise<void> => {
    held.removed ??= end(held, reason)
    return held.removed
  }
  const end = async (held: Held, reason: string): Promise<void> => {
    clearTimeout(held.timer)
    held.stop.abort(new ToolError('CANCELLED', `The sandbox was ended, because ${reason}.`))
    const opened = await held.opening.catch(() => undefined)
    await Promise.all([...held.runs.values()].map(({ finished }) => finished))
    if (opened !== undefined) await opened.sandbox.dispose()
    all.delete(held.id)
    onEvent({ event: 'ended', key: held.key, sandbox: held.id, reason })
    if (all.size === 0) draining?.resolve()
  }
  /** Ends the sandbox that waits longest for its program, of whichever client: nothing ran in it, and its client opens another. */
  const makeSpace = (): boolean => {
    const now = performance.now()
    const waiting = [...all.values()].find(
      ({ state, spec, openedAt, removed }) =>
        state === 'open' && spec.session !== true && removed === undefined && now - openedAt > shortestWaitMs,
    )
    if (waiting === undefined) return false
    waiting.state = 'spent'
    void remove(waiting, 'another client needs its place')
    return true
  }
  const begin = (key: string, id: string, digest: string, spec: WireSpec): Held => {
    const stop = new AbortController()
    const opening = runtimes.take(programOf(spec), confinementOf(spec), stop.signal)
    const held: Held = {
      key,
      id,
      digest,
      spec,
      opening,
      stop,
      runs: new Map(),
      started: 0,
      openedAt: performance.now(),
      state: 'opening',
      timer: undefined,
      attached: 0,
      removed: undefined,
    }
    all.set(id, held)
    opening.then(
      ({ sandbox, runtime }) => {
        held.state = 'open'
        onEvent({ event: 'opened', key, sandbox: id, runtime: runtime.kind, isolation: runtime.isolation })
        void sandbox.ended.then(() => held.state === 'open' && void remove(held, 'it ended by itself'))
      },
      () => void remove(held, 'it did not start'),
    )
    return held
  }
  const settle = async (held: Held, { sandbox }: OpenedSandbox): Promise<boolean> => {
    const alive = held.spec.session === true && !held.stop.signal.aborted && (await isAlive(sandbox.ended))
    if (alive) {
      held.state = 'open'
      if (draining !== undefined) void remove(held, 'the host is shutting down')
      return true
    }
    await disposals.end(sandbox)
    held.state = 'spent'
    return false
  }
  return {
    get open() {
      return openCount()
    },
    async opened(key, id, digest, spec) {
      const known = all.get(id)
      if (known !== undefined && (known.key !== key || known.digest !== digest)) {
        throw new RequestRefusal('CONFLICT', 'This id belongs to another sandbox.')
      }
      if (known === undefined) {
        if (draining !== undefined || isClosed)
          throw new RequestRefusal('DRAINING', 'The host is shutting down and opens no sandbox.')
        if (openCount() >= capacity && !makeSpace()) {
          throw new RequestRefusal('FULL', `All ${capacity} sandboxes of the host are in use.`)
        }
        if (keptBytes() > mostBytes)
          throw new RequestRefusal('FULL', 'Clients have not read what earlier programs wrote.')
      }
      const held = known ?? begin(key, id, digest, spec)
      const { runtime } = await held.opening
      touch(held)
      const { kind, isolation, image } = runtime
      return { kind, isolation, ...(image === undefined ? {} : { image }) }
    },
    async start(key, id, number, digest, jobOf) {
      const held = find(key, id)
      const opened = await held.opening
      const known = held.runs.get(number)
      if (known !== undefined) {
        if (known.digest !== digest) throw new RequestRefusal('CONFLICT', 'This run was started with another job.')
        return known
      }
      if (held.removed !== undefined) throw new RequestRefusal('SANDBOX_GONE', 'The sandbox has ended.')
      // A request that was delayed on its way must not start an earlier run again.
      if (number !== held.started + 1)
        throw new RequestRefusal('CONFLICT', 'Runs of a sandbox are started in their order.')
      if (held.state !== 'open')
        throw new RequestRefusal(
          'CONFLICT',
          'The sandbox runs one program at a time, and one in all outside of sessions.',
        )
      const job = jobOf()
      const { limits } = held.spec
      held.state = 'running'
      held.started = number
      held.runs.clear()
      const run = startRun({
        digest,
        job: job.tenant === undefined ? job : { ...job, tenant: `${key}/${job.tenant}` },
        sandbox: opened.sandbox,
        signal: held.stop.signal,
        mostBytes: limits.stdoutBytes + limits.stderrBytes + extraBytes,
        overflow: () => void remove(held, 'its client does not read what the program wrote'),
        settle: () => settle(held, opened),
      })
      held.runs.set(number, run)
      onEvent({ event: 'run', key, sandbox: id, run: number })
      return run
    },
    run(key, id, number) {
      const held = find(key, id)
      const run = held.runs.get(number)
      if (run === undefined) throw new RequestRefusal('RUN_UNKNOWN', 'No such run was started in the sandbox.')
      touch(held)
      return run
    },
    async whileAttached(key, id, work) {
      const held = find(key, id)
      held.attached += 1
      clearTimeout(held.timer)
      try {
        await work()
      } finally {
        held.attached -= 1
        touch(held)
      }
    },
    async remove(key, id, reason) {
      const held = all.get(id)
      if (held?.key === key) await remove(held, reason)
    },
    renew(key, ids) {
      return ids.filter((id) => {
        const held = all.get(id)
        if (held?.key !== key || held.removed !== undefined) return true
        touch(held)
        return false
      })
    },
    async drain() {
      draining ??= Promise.withResolvers<void>()
      for (const held of all.values()) {
        if (held.state === 'open') void remove(held, 'the host is shutting down')
      }
      if (all.size > 0) await draining.promise
      await disposals.settled()
    },
    async close() {
      isClosed = true
      await Promise.all([...all.values()].map((held) => remove(held, 'the host is shutting down')))
      await disposals.settled()
    },
  }
}

/** A sandbox of a session that ended with its run is known to have ended when the run returns. */
async function isAlive(ended: Promise<void>): Promise<boolean> {
  const soon = new Promise<boolean>((resolve) => void setImmediate(() => resolve(true)))
  return Promise.race([ended.then(() => false), soon])
}

/** Without a language a command or a script is to come. */
export function programOf({ language, session, gateway }: WireSpec): ProgramTraits {
  return {
    kind: language === undefined ? 'argv' : 'code',
    ...(language === undefined ? {} : { language }),
    ...(session === true ? { session } : {}),
    ...(gateway === true ? { gateway } : {}),
  }
}

/** What a spec demands of the runtimes of the host that opens its sandbox. */
export function confinementOf({ strict, floor = 'none', limits, deterministic }: WireSpec): Confinement {
  return {
    profile: strict === true ? 'hardened' : 'dev',
    floor: stronger(floor, least),
    least,
    limits,
    ...(deterministic === undefined ? {} : { deterministic }),
  }
}
