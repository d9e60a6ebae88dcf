/**
 * Stands in for a virtual machine: the frames of its guest are handled here, and its sandbox is a real init of our launcher,
 * in namespaces of its own with the folders of an image, so that programs run in it.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'

/** As `native/src/guest.h` and `wire.h` have them. */
const types = { ready: 1, exit: 8, turn: 9, renew: 200, renewed: 201, quiet: 202, isQuiet: 203, figures: 204 } as const
const headBytes = 5
const longestFrame = 1_048_576

export interface Guest {
  /** Takes the place of a connection that was lost. */
  accept(socket: Socket): void
  pause(): void
  resume(): void
  /** What its sandbox was given: what a snapshot has in its memory. */
  given(): readonly string[]
}

export interface GuestOptions {
  /** The folder with our launcher, its drivers and filters, and Node. */
  readonly parts: string
  /** The path of the filter in the image. */
  readonly filter: string
  /** Of the snapshot that it begins from; undefined for one that boots. */
  readonly given?: readonly string[]
  /** The machine has turned itself off. */
  onEnd(): void
}

export function createGuest({ parts, filter, given: before, onEnd }: GuestOptions): Guest {
  const given = [...(before ?? [])]
  let socket: Socket | undefined
  let init: ChildProcess | undefined
  let isRestored = before !== undefined

  const send = (type: number, payload: Buffer): void => void socket?.write(frameOf(type, payload))
  const fromInit = (type: number, payload: Buffer): void => {
    // The host has had it before the snapshot.
    if (type === types.ready && isRestored) {
      isRestored = false
      return
    }
    if (type === types.exit || type === types.turn) send(types.figures, figures())
    send(type, payload)
  }
  const start = (diskBytes: number): ChildProcess => {
    const child = spawn('/usr/bin/bwrap', sandbox(parts, filter, diskBytes), { stdio: ['pipe', 'pipe', 'inherit'] })
    child.stdin?.on('error', () => undefined)
    child.stdout?.on('data', frames(fromInit))
    child.once('close', onEnd)
    for (const frame of given) child.stdin?.write(Buffer.from(frame, 'base64'))
    return child
  }
  const take = (type: number, payload: Buffer): void => {
    if (type === types.renew) {
      const { diskBytes } = renewal(payload)
      init ??= start(diskBytes)
      send(types.renewed, Buffer.from('\0\0\0\0\0'))
    } else if (type === types.quiet) {
      void untilQuiet().then(() => send(types.isQuiet, Buffer.from('\0\0\0\0\0')))
    } else {
      const frame = frameOf(type, payload)
      given.push(frame.toString('base64'))
      init?.stdin?.write(frame)
    }
  }
  return {
    accept(next) {
      socket?.destroy()
      socket = next
      next.on('error', () => undefined)
      next.on('data', frames(take))
    },
    pause: () => void socket?.pause(),
    resume: () => void socket?.resume(),
    given: () => given,
  }
}

function frameOf(type: number, payload: Buffer): Buffer {
  const head = Buffer.alloc(headBytes)
  head.writeUInt8(type)
  head.writeUInt32BE(payload.length, 1)
  return Buffer.concat([head, payload])
}

function frames(take: (type: number, payload: Buffer) => void): (piece: Buffer) => void {
  let held = Buffer.alloc(0)
  return (piece) => {
    held = Buffer.concat([held, piece])
    while (held.length >= headBytes) {
      const length = held.readUInt32BE(1)
      if (length > longestFrame) throw new Error('A frame is too long.')
      if (held.length < headBytes + length) return
      const frame = held.subarray(0, headBytes + length)
      held = held.subarray(headBytes + length)
      take(frame.readUInt8(0), frame.subarray(headBytes))
    }
  }
}

/** Seed, time and limits, in the form of the real guest, which refuses another one. */
function renewal(payload: Buffer): { readonly diskBytes: number } {
  const seedBytes = payload.readUInt32BE(0)
  if (seedBytes !== 64 || payload.length !== 4 + seedBytes + 5 * 8) throw new Error('renewal: Invalid argument')
  return { diskBytes: Number(payload.readBigUInt64BE(payload.length - 8)) }
}

function sandbox(parts: string, filter: string, diskBytes: number): readonly string[] {
  const inside = '/gantry'
  return [
    ...['--unshare-all', '--as-pid-1', '--die-with-parent', '--new-session', '--clearenv', '--cap-drop', 'ALL'],
    ...['--ro-bind', '/usr', '/usr', '--symlink', 'usr/bin', '/bin', '--symlink', 'usr/lib', '/lib'],
    ...['--symlink', 'usr/lib64', '/lib64', '--proc', '/proc', '--dev', '/dev'],
    ...['--ro-bind', join(parts, 'launcher'), `${inside}/init`, '--ro-bind', join(parts, 'node'), `${inside}/node`],
    ...['--ro-bind', join(parts, 'drivers'), `${inside}/drivers`],
    ...['--ro-bind', join(parts, 'filters'), `${inside}/filters`],
    ...['--size', String(diskBytes), '--perms', '0755', '--tmpfs', '/work', '--chdir', '/work'],
    ...['--remount-ro', '/dev', '--remount-ro', '/'],
    ...[`${inside}/init`, 'init', '--stdio', filter],
  ]
}

/** Everything in this process's namespace but this process: the sandbox. */
function processes(): readonly string[] {
  return readdirSync('/proc').filter((name) => /^\d+$/.test(name) && name !== String(process.pid))
}

function sumOver(read: (folder: string) => number): number {
  let sum = 0
  for (const pid of processes()) {
    try {
      sum += read(`/proc/${pid}`)
    } catch {
      // It has ended meanwhile.
    }
  }
  return sum
}

function ticks(): number {
  return sumOver((folder) => {
    const [user = '0', system = '0'] =
      readFileSync(`${folder}/stat`, 'latin1').split(') ')[1]?.split(' ').slice(11) ?? []
    return Number(user) + Number(system)
  })
}

async function untilQuiet(): Promise<void> {
  let last = -1
  for (let looks = 0; looks < 3; ) {
    const now = ticks()
    looks = now === last ? looks + 1 : 0
    last = now
    await pause(20)
  }
}

/** Processor time, memory, and no refusals, which only a kernel of its own would count. */
function figures(): Buffer {
  const kilobytes = sumOver((folder) =>
    Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`${folder}/status`, 'latin1'))?.[1] ?? 0),
  )
  const payload = Buffer.alloc(32)
  payload.writeBigUInt64BE(BigInt(ticks() * 10_000), 0)
  payload.writeBigUInt64BE(BigInt(kilobytes * 1_024), 8)
  return payload
}
