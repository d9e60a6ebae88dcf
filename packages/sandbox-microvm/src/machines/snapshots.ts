import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { chmodSync, chownSync, mkdirSync } from 'node:fs'
import { rm, writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { ToolError } from '@gantry/contract'
import { follow } from '@gantry/core/internal/resilience/abort'
import { type KeptSnapshots, keepSnapshots, type SnapshotWish } from './kept-snapshots.ts'
import type { Machine } from './machine.ts'
import { controlName } from './qemu-arguments.ts'
import { type Control, type ControlSocket, ignoreShared, listenForControl } from './qmp.ts'
import { createSnapshotMemory } from './snapshot-memory.ts'

/** A machine that has started and waits, as one that any number of machines begin as. */
export interface Snapshot {
  /** A descriptor of this process. */
  readonly memory: number
  /** A file of this process. */
  readonly state: string
  /** What its init was given before. */
  readonly ahead: Buffer | undefined
}

/** What a machine is booted with so that a snapshot of it can be taken. */
export interface SnapshotSource extends SnapshotWish {
  readonly memoryBytes: number
  /** Boots it with this memory, and with the folder in which its control and its state are. */
  boot(at: { readonly memory: number; readonly folder: string }, signal: AbortSignal): Promise<BootedMachine>
}

export interface BootedMachine {
  readonly machine: Machine
  /** The folder as the hypervisor sees it. */
  readonly inside: string
  release(): void
}

/** Snapshots of QEMU, each with some 150 MB of memory. */
export type Snapshots = KeptSnapshots<SnapshotSource, Kept>

/** A machine that boots under emulation, on a busy host. */
const takeMs = 180_000
/** The state of devices; the memory is not in it. */
const mostStateBytes = 64 * 2 ** 20
const pollMs = 5

/** A snapshot, and how it is given up. */
export interface Kept extends Snapshot {
  close(): Promise<void>
}

export function createSnapshots(options: { readonly launcher: string; readonly folder: string }): Snapshots {
  return keepSnapshots((source, closing) => takeSnapshot(options, source, closing))
}

async function takeSnapshot(
  { launcher, folder: parent }: { readonly launcher: string; readonly folder: string },
  source: SnapshotSource,
  closing: AbortSignal,
): Promise<Kept> {
  const { signal, leave } = follow(closing, AbortSignal.timeout(takeMs))
  const id = randomBytes(9).toString('base64url')
  const folder = join(parent, `s-${id}`)
  const state = join(parent, `state-${id}`)
  const memory = await createSnapshotMemory(launcher, source.memoryBytes)
  let booted: BootedMachine | undefined
  let socket: ControlSocket | undefined
  try {
    mkdirSync(folder, { mode: 0o700 })
    socket = await listenForControl(join(folder, controlName))
    booted = await source.boot({ memory: memory.descriptor, folder }, signal)
    const control = await socket.accepted(signal)
    await waitFor(booted.machine, source.ahead)
    await writeFile(state, await saveState(control, folder, booted.inside, signal), { mode: 0o600 })
    booted.machine.supervisor.kill()
    await booted.machine.supervisor.ended
    await memory.seal()
  } catch (error) {
    booted?.machine.supervisor.kill()
    await booted?.machine.supervisor.ended
    memory.close()
    await rm(state, { force: true })
    throw error
  } finally {
    leave()
    socket?.close()
    booted?.release()
    await rm(folder, { recursive: true, force: true })
  }
  return {
    memory: memory.descriptor,
    state,
    ahead: source.ahead,
    async close() {
      memory.close()
      await rm(state, { force: true })
    },
  }
}

/** Until the init is ready, and the interpreter too. */
export async function waitFor({ init, link, failure, supervisor }: Machine, ahead: Buffer | undefined): Promise<void> {
  await Promise.race([init.ready, supervisor.ended])
  if (!init.isReady()) throw await failure()
  if (ahead !== undefined) link.channel.write(ahead)
  await link.quiet()
  if (link.isClosed()) throw await failure()
}

/** Asks QEMU for the state of everything but the memory, which is shared. */
async function saveState(control: Control, folder: string, inside: string, signal: AbortSignal): Promise<Buffer> {
  const server = createServer()
  const pieces: Buffer[] = []
  const received = Promise.withResolvers<void>()
  server.on('connection', (socket) => {
    let bytes = 0
    socket.on('data', (piece: Buffer) => {
      bytes += piece.length
      if (bytes > mostStateBytes) return socket.destroy()
      pieces.push(piece)
    })
    socket.on('error', received.reject)
    socket.on('close', () => received.resolve())
  })
  try {
    const path = join(folder, 'state')
    await once(server.listen(path), 'listening')
    chmodSync(path, 0o666)
    await ignoreShared(control)
    await control.execute('migrate', { uri: `unix:${inside}/state` })
    for (;;) {
      const { status } = (await control.execute('query-migrate')) as { readonly status?: string }
      if (status === 'completed') break
      if (status === 'failed' || status === 'cancelled') {
        throw new ToolError('SANDBOX_INIT_FAILED', `QEMU could not save the machine: ${status}.`)
      }
      await pause(pollMs, undefined, { signal })
    }
    await received.promise
    return Buffer.concat(pieces)
  } finally {
    server.close()
  }
}

/** Gives the folder of a machine to the uid that its hypervisor runs under. */
export function giveFolder(folder: string, uid: number | undefined): void {
  if (uid !== undefined) chownSync(folder, uid, uid)
}
