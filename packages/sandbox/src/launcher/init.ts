import type { Duplex } from 'node:stream'
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

/** Protocol version of the init. */
const version = '1'
/** Most frames before a run: some output, an exit and a fault. */
const mostEarly = 8
/** A chunk of this length may be followed by another one in the same turn of the event loop. */
const longChunk = 32_768

/** The host's end of the channel to the init. Nothing here throws or rejects; `fault` returns what broke. */
export interface InitLink {
  readonly ready: Promise<void>
  isReady(): boolean
  /** Resolves when the channel is closed. */
  readonly closed: Promise<void>
  /** The protocol violation of the init; the sandbox is being killed. */
  fault(): FrameError | undefined
  start(step: LaunchStep, keep: boolean): void
  relay(port: number, socket: string): void
  /** Sends a job made by `jobPieces`. Its frames go to the intake until the intake has an end; then `onEnd` is called. */
  go(pieces: readonly Uint8Array[], intake: RunIntake, onEnd: () => void): void
  /** Writes a line to the running program, unless it has ended; returns the number of bytes that are not yet sent. */
  line(text: string): number
  /** Ends the turn of an interpreter that reported its exit code. */
  finish(code: number): void
  /** Half-closes the channel: nothing more will be sent. */
  hangUp(): void
}

export function connectInit(socket: Duplex, kill: () => void): InitLink {
  const ready = Promise.withResolvers<void>()
  const closed = Promise.withResolvers<void>()
  let isReady = false
  let broken: FrameError | undefined
  let current: { readonly intake: RunIntake; readonly onEnd: () => void } | undefined
  // Frames of a warm interpreter that ended before its run; the run reads its exit and output from here.
  const early: [type: number, payload: Buffer][] = []

  const take = (type: number, payload: Buffer): void => {
    if (!isReady) {
      if (type !== fromInit.ready || payload.toString() !== version)
        throw new FrameError(`The init did not report protocol version ${version}.`)
      isReady = true
      ready.resolve()
    } else if (current !== undefined) {
      deliver(current, type, payload)
    } else if (early.length < mostEarly) {
      early.push([type, payload])
    } else {
      throw new FrameError('The init sent a frame while no program was running.')
    }
  }
  const deliver = (to: NonNullable<typeof current>, type: number, payload: Buffer): void => {
    to.intake.take(type, payload)
    if (to.intake.end === undefined) return
    current = undefined
    // The init waits for this before it exits, so that a failing write of ours cannot discard what it wrote.
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
  socket.on('data', (chunk: Buffer) => {
    guarded(() => push(chunk))
    if (chunk.length < longChunk) return
    // Node reads on in the same turn of the event loop as long as chunks are full, whatever handling them takes.
    socket.pause()
    setImmediate(() => socket.resume())
  })
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
