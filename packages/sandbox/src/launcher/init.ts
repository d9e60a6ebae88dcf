import type { Socket } from 'node:net'
import type { LaunchStep } from './launcher.ts'
import {
  FrameError,
  frameReader,
  fromInit,
  linePieces,
  PayloadWriter,
  relayFrame,
  startFrame,
  toInit,
} from './protocol.ts'
import type { RunIntake } from './run-intake.ts'

/** The init that this code speaks with. */
const version = '1'
/** Some output, an end and a fault; more is not said before a run. */
const mostEarly = 8

/** The host's end of the channel to the init. Nothing here throws or rejects; `fault` returns what broke. */
export interface InitLink {
  readonly ready: Promise<void>
  isReady(): boolean
  /** Resolves when no more will come. */
  readonly closed: Promise<void>
  /** What the init did that ours would not; the sandbox is being killed then. */
  fault(): FrameError | undefined
  start(step: LaunchStep, keep: boolean): void
  relay(port: number, socket: string): void
  /** Sends a job as `jobPieces` made it; its frames go to the intake until that has an end, then `onEnd` is called. */
  go(pieces: readonly Uint8Array[], intake: RunIntake, onEnd: () => void): void
  /** Writes a further line to the program of the run, unless it has ended; returns how many bytes wait to be taken. */
  line(text: string): number
  /** Ends the turn of an interpreter, which has said with which code it ends. */
  finish(code: number): void
  /** Says that nothing more will be sent. */
  hangUp(): void
}

export function connectInit(socket: Socket, kill: () => void): InitLink {
  const ready = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  let isReady = false
  let broken: FrameError | undefined
  let current: { readonly intake: RunIntake; readonly onEnd: () => void } | undefined
  /* An interpreter that ended while it waited says so, and why, before a run listens. */
  const early: [type: number, payload: Buffer][] = []

  const take = (type: number, payload: Buffer): void => {
    if (!isReady) {
      if (type !== fromInit.ready || payload.toString() !== version)
        throw new FrameError('The init is not the expected one.')
      isReady = true
      ready.resolve()
    } else if (current !== undefined) {
      deliver(current, type, payload)
    } else if (early.length < mostEarly) {
      early.push([type, payload])
    } else {
      throw new FrameError('The init sent something while nothing ran.')
    }
  }
  const deliver = (to: NonNullable<typeof current>, type: number, payload: Buffer): void => {
    to.intake.take(type, payload)
    if (to.intake.end === undefined) return
    current = undefined
    /* The init waits for this before it ends, so that nothing we write can fail and hide what it wrote. */
    if (to.intake.end.kind === 'exit') socket.end()
    to.onEnd()
  }
  const push = frameReader(take)
  const write = (bytes: Uint8Array): void => {
    if (socket.writable) socket.write(bytes)
  }
  const guarded = (work: () => void): void => {
    if (broken !== undefined) return
    try {
      work()
    } catch (error) {
      broken = error instanceof FrameError ? error : new FrameError('A frame could not be handled.', { cause: error })
      kill()
    }
  }
  socket.on('error', () => undefined)
  socket.on('close', () => closed.resolve())
  socket.on('data', (chunk: Buffer) => guarded(() => push(chunk)))
  return {
    ready: ready.promise,
    isReady: () => isReady,
    closed: closed.promise,
    fault: () => broken,
    start: (step, keep) => guarded(() => write(startFrame(step, keep))),
    relay: (port, path) => guarded(() => write(relayFrame(port, path))),
    go(pieces, intake, onEnd) {
      guarded(() => {
        const run = { intake, onEnd }
        current = run
        socket.cork()
        for (const piece of pieces) write(piece)
        socket.uncork()
        for (const [type, payload] of early.splice(0)) deliver(run, type, payload)
      })
    },
    line(text) {
      if (current === undefined) return 0
      socket.cork()
      for (const piece of linePieces(text)) write(piece)
      socket.uncork()
      return socket.writableLength
    },
    finish: (code) => write(new PayloadWriter().u8(code).frame(toInit.finish)),
    hangUp: () => void socket.end(),
  }
}
