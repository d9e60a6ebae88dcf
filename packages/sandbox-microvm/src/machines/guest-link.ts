import { randomBytes } from 'node:crypto'
import { Duplex } from 'node:stream'
import type { SandboxLimit, SandboxLimits } from '@gantry/contract'
import {
  FrameError,
  frameHead,
  frameReader,
  fromInit,
  PayloadReader,
  PayloadWriter,
} from '@gantry/sandbox/internal/launcher/protocol'

/** Frames between this process and the guest itself, as `native/src/guest.h` has them. */
const guestFrames = { renew: 200, renewed: 201, quiet: 202, isQuiet: 203, figures: 204, fault: 205 } as const
const seedBytes = 64
/** What the init of every guest says first. */
const readyText = '1'

/** What the guest says that its sandbox used; untrusted. */
export interface GuestFigures {
  readonly memoryPeakBytes: number
  readonly hits: readonly SandboxLimit[]
}

/**
 * ## Guest link
 *
 * The host's end of the one channel to a virtual machine, over whichever transport. Frames of the guest are taken out, and
 * what is left is the channel of its init.
 *
 * | state    | entered when                        | left by                                             |
 * | -------- | ----------------------------------- | --------------------------------------------------- |
 * | new      | the transport is open               | `renew`, which is answered (to renewed)             |
 * | renewed  | random numbers, clock, limits fresh | `quiet`, the end of the transport                   |
 * | quiet    | nothing in the sandbox works        | a snapshot, or the first frame for the init         |
 * | closed   | the transport has ended             | –                                                   |
 *
 * Nothing here rejects before `closed`; a guest that sends an invalid frame destroys the transport.
 */
export interface GuestLink {
  /** The init's channel. */
  readonly channel: Duplex
  /** Gives the guest new random numbers, the time of this machine and its limits; resolves when it has them. */
  renew(limits: SandboxLimits): Promise<void>
  /** Resolves when no process of the sandbox uses the processor. */
  quiet(): Promise<void>
  /**
   * Lets the channel begin as that of a restored guest, which has said already that it is ready. `ahead` is the frame that
   * it was given before its snapshot was taken: the same frame is not sent again.
   */
  resume(ahead: Buffer | undefined): void
  figures(): GuestFigures | undefined
  /** Called with figures that show a limit as hit. */
  onHit(listener: (figures: GuestFigures) => void): void
  /** Why the guest gave up, in its words. */
  fault(): string | undefined
  isClosed(): boolean
  readonly closed: Promise<void>
}

export function connectGuest(transport: Duplex): GuestLink {
  const closed = Promise.withResolvers<void>()
  const listeners: ((figures: GuestFigures) => void)[] = []
  let answered: { readonly type: number; readonly answer: PromiseWithResolvers<void> } | undefined
  let figures: GuestFigures | undefined
  let fault: string | undefined
  let skipped: Buffer | undefined
  let hasEnded = false

  const channel = new Duplex({
    read: () => void transport.resume(),
    write(bytes: Buffer, _encoding, done) {
      const rest = withoutAhead(bytes)
      if (rest.length === 0) done()
      else if (transport.write(rest)) done()
      else transport.once('drain', done)
    },
    final(done) {
      transport.end()
      done()
    },
    destroy(_error, done) {
      transport.destroy()
      done(null)
    },
  })
  /** The first bytes of a channel are one whole frame, because that is how frames are written. */
  const withoutAhead = (bytes: Buffer): Buffer => {
    const expected = skipped
    skipped = undefined
    if (expected === undefined || !bytes.subarray(0, expected.length).equals(expected)) return bytes
    return bytes.subarray(expected.length)
  }
  const end = (): void => {
    if (hasEnded) return
    hasEnded = true
    answered?.answer.resolve()
    closed.resolve()
    channel.push(null)
    channel.destroy()
  }
  const take = (type: number, payload: Buffer): void => {
    if (type === guestFrames.figures) {
      figures = figuresOf(payload)
      if (figures.hits.length > 0) for (const listener of listeners) listener(figures)
    } else if (type === guestFrames.fault) {
      fault = new PayloadReader(payload).text()
    } else if (type === guestFrames.renewed || type === guestFrames.isQuiet) {
      if (answered?.type !== type) throw new FrameError('The guest answered what it was not asked.')
      answered.answer.resolve()
    } else if (type > fromInit.fault) {
      throw new FrameError('The guest sent a frame of an unknown type.')
    } else {
      channel.push(Buffer.concat([frameHead(type, payload.length), payload]))
    }
  }
  const push = frameReader(take)
  const ask = async (frame: Buffer, type: number): Promise<void> => {
    if (hasEnded) return
    const answer = Promise.withResolvers<void>()
    answered = { type, answer }
    transport.write(frame)
    await answer.promise
    answered = undefined
  }
  transport.on('data', (chunk: Buffer) => {
    try {
      push(chunk)
    } catch (error) {
      fault ??= error instanceof Error ? error.message : 'The guest sent an invalid frame.'
      transport.destroy()
    }
    if (channel.readableLength > channel.readableHighWaterMark) transport.pause()
  })
  transport.on('error', () => undefined)
  for (const event of ['end', 'close']) transport.once(event, end)
  return {
    channel,
    renew: (limits) => ask(renewal(limits), guestFrames.renewed),
    quiet: () => ask(frameHead(guestFrames.quiet, 0), guestFrames.isQuiet),
    resume(ahead) {
      skipped = ahead
      take(fromInit.ready, Buffer.from(readyText))
    },
    figures: () => figures,
    onHit: (listener) => void listeners.push(listener),
    fault: () => fault,
    isClosed: () => hasEnded,
    closed: closed.promise,
  }
}

function renewal({ memoryBytes, pids, diskBytes }: SandboxLimits): Buffer {
  const payload = new PayloadWriter().u32(seedBytes)
  for (const byte of randomBytes(seedBytes)) payload.u8(byte)
  const now = Date.now()
  payload.u64(Math.floor(now / 1_000)).u64((now % 1_000) * 1e6)
  return payload.u64(memoryBytes).u64(pids).u64(diskBytes).frame(guestFrames.renew)
}

function figuresOf(payload: Buffer): GuestFigures {
  const reader = new PayloadReader(payload)
  // Processor time in the guest is that of its own clock; the host's figures count instead.
  reader.u64()
  const memoryPeakBytes = reader.u64()
  const hits: SandboxLimit[] = []
  if (reader.u64() > 0) hits.push('memoryBytes')
  if (reader.u64() > 0) hits.push('pids')
  return { memoryPeakBytes, hits }
}
