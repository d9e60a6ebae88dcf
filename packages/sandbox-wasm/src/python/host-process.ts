import { spawn } from 'node:child_process'
import type { Duplex, Readable } from 'node:stream'

/** A process that was started with a way to talk to it as its descriptor 3. */
export interface HostProcess {
  /** Absent when it is not a process of this machine's own, or not the host itself; then nothing is read of it. */
  readonly pid?: number | undefined
  /** Both ways, blocking at the other end. */
  readonly channel: Duplex
  /** What it says when it falls. */
  readonly diagnostics: Readable
  /** Resolves when it is gone. */
  readonly exited: Promise<void>
  /** Ends it at once, and everything that it may have started. */
  kill(): void
}

/**
 * Starts a host: `argv` with only this environment, descriptors 0 and 1 closed, 2 for diagnostics, 3 for the channel. A
 * start that fails shows as a channel that closes.
 */
export type SpawnHost = (argv: readonly [string, ...string[]], env: { readonly [name: string]: string }) => HostProcess

/** A plain child process. Called on the main thread only: a host may be set to die with the thread that started it. */
export const spawnPlainly: SpawnHost = ([program, ...words], env) => {
  const child = spawn(program, words, { env, cwd: '/', stdio: ['ignore', 'ignore', 'pipe', 'pipe'] })
  const exited = Promise.withResolvers<void>()
  const channel = child.stdio[3] as unknown as Duplex
  child.on('error', () => {
    channel.destroy()
    exited.resolve()
  })
  child.on('exit', () => exited.resolve())
  return {
    pid: child.pid,
    channel,
    diagnostics: child.stdio[2] as Readable,
    exited: exited.promise,
    kill: () => void child.kill('SIGKILL'),
  }
}
