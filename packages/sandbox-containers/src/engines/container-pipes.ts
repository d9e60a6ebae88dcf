import { execFile } from 'node:child_process'
import { closeSync, constants, openSync } from 'node:fs'
import { mkdir, rm } from 'node:fs/promises'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { Duplex } from 'node:stream'
import { promisify } from 'node:util'
import { ToolError } from '@gantry/contract'
import { unlessAborted } from '@gantry/core/internal/resilience/abort'

/** How many containers the pipes of one batch serve: Node makes none by itself, and a process for each would cost 3 ms. */
const batch = 16
/** What is kept of stderr: the reason why an init did not start is its last line. */
const mostStderr = 4_096

const run = promisify(execFile)

/** Named pipes for the streams of one container, made for it alone. */
export interface ContainerPipes {
  readonly stdin: string
  readonly stdout: string
  readonly stderr: string
}

/** The streams of a container, as this process has them. */
export interface PipedStreams {
  /** Stdin and stdout of the container. Destroying it closes stdin, and the init ends. */
  readonly channel: Duplex
  stderr(): string
}

/** Makes named pipes ahead, in a folder of their own. */
export interface PipeStock {
  /** Rejects with SANDBOX_INIT_FAILED when they cannot be made. */
  take(signal: AbortSignal): Promise<ContainerPipes>
  /** Removes the pipes of a container that is gone. */
  discard(pipes: ContainerPipes): Promise<void>
}

export function createPipeStock(folder: string): PipeStock {
  const ready: ContainerPipes[] = []
  let made = 0
  let making: Promise<void> | undefined

  const make = async (): Promise<void> => {
    const names = Array.from({ length: batch }, () => {
      made += 1
      const path = (stream: string): string => join(folder, `p-${made}-${stream}`)
      return { stdin: path('in'), stdout: path('out'), stderr: path('err') }
    })
    try {
      await mkdir(folder, { recursive: true, mode: 0o700 })
      await run('mkfifo', ['-m', '600', ...names.flatMap(({ stdin, stdout, stderr }) => [stdin, stdout, stderr])])
      ready.push(...names)
    } catch (cause) {
      throw new ToolError('SANDBOX_INIT_FAILED', `mkfifo could not make pipes in ${folder}.`, { cause })
    } finally {
      making = undefined
    }
  }
  return {
    async take(signal) {
      for (;;) {
        const pipes = ready.pop()
        if (pipes !== undefined) return pipes
        making ??= make()
        await unlessAborted(making, signal)
      }
    },
    async discard({ stdin, stdout, stderr }) {
      await Promise.all([stdin, stdout, stderr].map((path) => rm(path, { force: true })))
    },
  }
}

/**
 * Opens the pipes of a container before it is started. Each is opened for reading and writing: opening one end alone would
 * wait for the other. When this process dies, the last writer of stdin is gone, and the init ends.
 */
export function openPipes(pipes: ContainerPipes): PipedStreams {
  const [stdin, stdout, errors] = openAll([pipes.stdin, pipes.stdout, pipes.stderr])
  const input = new Socket({ fd: stdin, readable: false, writable: true })
  const output = new Socket({ fd: stdout, readable: true, writable: false })
  const messages = new Socket({ fd: errors, readable: true, writable: false })
  let stderr = ''
  const channel = new Duplex({
    read: () => void output.resume(),
    write: (chunk, _, done) => void input.write(chunk, done),
    final: (done) => void input.end(done),
    destroy: (error, done) => {
      for (const socket of [input, output, messages]) socket.destroy()
      done(error)
    },
  })
  output.on('data', (chunk: Buffer) => {
    if (!channel.push(chunk)) output.pause()
  })
  messages.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString('latin1')).slice(-mostStderr)
  })
  for (const socket of [input, output, messages]) socket.on('error', () => channel.destroy())
  channel.on('error', () => undefined)
  return { channel, stderr: () => stderr.trim() }
}

function openAll(paths: readonly [string, string, string]): [number, number, number] {
  const opened: number[] = []
  try {
    for (const path of paths) opened.push(openSync(path, constants.O_RDWR | constants.O_NONBLOCK))
    return opened as [number, number, number]
  } catch (error) {
    for (const fd of opened) closeSync(fd)
    throw error
  }
}
