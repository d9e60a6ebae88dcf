import type { ChildProcess } from 'node:child_process'
import type { Socket } from 'node:net'
import type { SandboxLimit } from '@gantry/contract'
import type { EndReason, LaunchEnd, LaunchPlan } from './launcher.ts'
import {
  FrameError,
  frameHead,
  frameReader,
  fromSupervisor,
  PayloadReader,
  PayloadWriter,
  toSupervisor,
} from './protocol.ts'

/** In the order of `enum reason` in native/src/supervise.c. */
const reasons: readonly EndReason[] = ['exited', 'wall', 'watch', 'killed', 'owner-gone', 'start-failed']
/** The supervisor bounds all its waits; one that has not exited by then is stuck in the kernel. */
const stuckMs = 30_000

/** The plan's figures at one moment. */
export type Figures = Pick<LaunchEnd, 'figures' | 'hits'>

/**
 * ## Launcher supervisor
 *
 * The host's end of the channel to the supervisor, the native process outside of the sandbox.
 *
 * | state     | entered when                                             | left by                                             |
 * | --------- | -------------------------------------------------------- | --------------------------------------------------- |
 * | started   | the plan was sent                                        | `begin`                                             |
 * | running   | `begin` starts the wall clock of a run                   | `measure` (to started), a limit, `kill`, owner gone |
 * | dead      | `end` resolves: no process of the sandbox lives          | removal of its folders and control groups           |
 * | gone      | `ended` resolves: everything is removed, the process too | –                                                   |
 *
 * Nothing here throws or rejects; the end of the sandbox settles every promise.
 */
export interface SupervisorLink {
  /** Starts the wall clock of a run. */
  begin(wallMs: number): void
  /** Stops the clock and returns the current figures, or those of the end when that comes first. */
  measure(): Promise<Figures>
  /** Returns the same figures without stopping the clock. */
  look(): Promise<Figures>
  kill(): void
  /** Resolves when everything in the sandbox is dead; not yet removed. */
  readonly end: Promise<LaunchEnd>
  /** Resolves when the supervisor has removed everything and ended. */
  readonly ended: Promise<LaunchEnd>
}

export function connectSupervisor(child: ChildProcess, socket: Socket, plan: LaunchPlan): SupervisorLink {
  const end = Promise.withResolvers<LaunchEnd>()
  const ended = Promise.withResolvers<LaunchEnd>()
  let left: readonly string[] | undefined
  let measured: PromiseWithResolvers<Figures> | undefined
  let killed = false

  const take = (type: number, payload: Buffer): void => {
    const reader = new PayloadReader(payload)
    if (type === fromSupervisor.figures) measured?.resolve(readFigures(reader))
    else if (type === fromSupervisor.end) end.resolve(readEnd(reader))
    else if (type === fromSupervisor.gone) hangUp(reader.list(() => reader.text()))
    else throw new FrameError('The supervisor sent a frame of an unknown type.')
  }
  // The supervisor waits for this before it exits, so that a failing write of ours cannot discard what it wrote.
  const hangUp = (remains: readonly string[]): void => {
    left = remains
    socket.end()
  }
  const push = frameReader(take)
  const write = (bytes: Buffer): void => {
    if (socket.writable) socket.write(bytes)
  }
  const ask = async (how: number): Promise<Figures> => {
    write(frameHead(how, 0))
    if (isUnmeasured(plan)) return { figures: {}, hits: [] }
    measured = Promise.withResolvers<Figures>()
    return Promise.race([measured.promise, end.promise])
  }
  const gone = (): void => {
    const all = [...plan.cgroups.folders, ...plan.folders]
    // The supervisor exited without its final report, so nothing is known to be removed.
    end.resolve({ reason: 'killed', message: 'The supervisor ended unexpectedly.', figures: {}, hits: [], left: all })
    void end.promise.then((last) => ended.resolve({ ...last, left: left ?? all }))
  }
  socket.on('error', () => undefined)
  socket.on('data', (chunk: Buffer) => {
    try {
      push(chunk)
    } catch {
      child.kill('SIGTERM')
    }
  })
  child.on('error', () => undefined)
  child.on('close', gone)
  return {
    begin: (wallMs) => write(new PayloadWriter().u64(wallMs).frame(toSupervisor.begin)),
    kill() {
      if (killed) return
      killed = true
      write(frameHead(toSupervisor.kill, 0))
      const timer = setTimeout(() => child.kill('SIGKILL'), stuckMs)
      void ended.promise.then(() => clearTimeout(timer))
    },
    measure: () => ask(toSupervisor.measure),
    look: () => ask(toSupervisor.look),
    end: end.promise,
    ended: ended.promise,
  }
}

/** Without control groups there are no figures to wait for. */
function isUnmeasured({ cgroups }: LaunchPlan): boolean {
  return cgroups.watches.length === 0 && Object.keys(cgroups.figures).length === 0
}

function readFigures(reader: PayloadReader): Figures {
  const figures = Object.fromEntries(reader.list(() => [reader.text(), reader.u64()]))
  return { figures, hits: reader.list(() => reader.text() as SandboxLimit) }
}

function readEnd(reader: PayloadReader): LaunchEnd {
  const reason = reasons[reader.u8()]
  if (reason === undefined) throw new FrameError('The supervisor gave an unknown reason.')
  const limit = reader.text() as SandboxLimit | ''
  const words = [reader.text(), oneLine(reader.text())].filter((text) => text !== '').join(' ')
  const status = statusText(reader.u32())
  const message = words === '' ? status : words
  return {
    reason,
    ...(limit === '' ? {} : { limit }),
    ...(message === undefined ? {} : { message }),
    ...readFigures(reader),
    rusage: { userMs: reader.u64() / 1000, systemMs: reader.u64() / 1000, maxRssBytes: reader.u64() },
    left: [],
  }
}

/** The last message of bubblewrap as one printable line. */
function oneLine(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\s]+/gu, ' ').trim()
}

/** Describes a `wait` status that is not a normal exit. */
function statusText(status: number): string | undefined {
  if (status === 0) return undefined
  const signal = status & 0x7f
  return signal === 0 ? `It ended with code ${status >> 8}.` : `It was ended by signal ${signal}.`
}
