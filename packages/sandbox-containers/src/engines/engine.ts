import type { Duplex } from 'node:stream'
import type { Pausing } from '@gantry/core/internal/runtimes/runtime'

/**
 * A container engine: it starts containers by one policy and removes them.
 * - Concurrency: any number of containers.
 * - Cancellation: every method that waits takes a signal, and gives up by itself when the engine does not answer.
 * - Errors: RUNTIME_UNAVAILABLE with reason and remedy when the engine cannot be used or the image is gone,
 *   SANDBOX_INIT_FAILED when a container did not start.
 */
export interface ContainerEngine {
  /** Name and version, as `gantry doctor` shows them. */
  readonly version: string
  /** Whether the version of its OCI runtime is known and not too old; false when it cannot be read. */
  readonly hasKnownRuntime?: boolean
  /** Whether the engine runs on this machine, so that its folders can be mounted and its control groups read. */
  readonly isLocal: boolean
  /** The kernel of its machine, as `uname -r` has it; absent where the engine does not say. */
  readonly kernelRelease?: string
  /** The version of its control groups. */
  readonly cgroupVersion: 1 | 2
  /** Whether containers may take swap of its machine in addition to their memory, because its kernel does not limit it. */
  readonly mayTakeSwap?: boolean
  /** Resolves when what was checked may not hold any more: it was restarted or reloaded, or an image is gone. */
  readonly outdated: Promise<void>
  /** Finds an image by name or digest. Rejects with RUNTIME_UNAVAILABLE when there is none. */
  image(name: string, signal: AbortSignal): Promise<ContainerImage>
  /** Starts a container; its init has not yet said that it is ready. */
  start(spec: ContainerSpec, signal: AbortSignal): Promise<Container>
  /** It can write to the stdin of a container before the init runs, so that the init need not wait for the engine's answers. */
  readonly writesAhead?: true
  /** Removes the containers of owners that have died; returns their ids. */
  sweep(isDead: (owner: string) => boolean, signal: AbortSignal): Promise<readonly string[]>
  /** Ends the connections to the engine; containers of this owner must be gone. */
  close(): Promise<void>
}

export interface ContainerImage {
  /** The digest of its content, `sha256:…`. */
  readonly digest: string
  readonly labels: { readonly [name: string]: string }
}

/** What differs from one container to the next; everything else is the engine's one policy. */
export interface ContainerSpec {
  readonly id: string
  /** The process that owns it, by which leftovers are found. */
  readonly owner: string
  /** The digest of the image. */
  readonly image: string
  /** The OCI runtime, as the engine names it; its default when absent. */
  readonly runtime?: string
  readonly command: readonly [string, ...string[]]
  /** The filter of system calls. */
  readonly filter: 'base' | 'strict'
  readonly uid: number
  readonly memoryBytes: number
  readonly pids: number
  readonly processors: number
  readonly diskBytes: number
  readonly openFiles: number
  /** After this processor time the kernel ends a process by itself, also while the owner is stopped; unlimited when absent. */
  readonly cpuSeconds?: number
  /** Whether the OCI runtime mounts a `/tmp` without a bound by itself, which one of bounded size must replace. */
  readonly hasOwnKernel: boolean
  /** A folder of this machine that is mounted read-only at `/gantry/egress`. */
  readonly egressFolder?: string
  /** What the init reads first, for an engine that `writesAhead`. */
  readonly ahead?: Buffer
}

/** One container that was started. Nothing here rejects but `pausing`: a container that is gone is what was asked for. */
export interface Container {
  /** The init's channel: its stdin and stdout. Destroying it ends the container. */
  readonly channel: Duplex
  /** The process of the init on this machine, where the engine is local and the process is known to be the container's. */
  readonly pid: number | undefined
  /** The last of what was written to stderr. */
  stderr(): string
  /** Whether the kernel killed something in it for want of memory. */
  isOutOfMemory(): boolean
  /** Resolves when no process of it lives, or when the engine has become unreachable. */
  readonly died: Promise<ContainerEnd>
  /** Stops its processes and lets them run on; absent where the engine cannot. Its removal works in either state. */
  readonly pausing?: Pausing
  /** Kills everything in it without removing it, and returns true when that is certain; absent where `pid` serves. */
  kill?(): Promise<boolean>
  /** Kills everything in it and removes it; resolves when that is done, or after a bounded time with what is left. */
  remove(): Promise<readonly string[]>
}

export type ContainerEnd =
  | { readonly kind: 'exited'; readonly code: number }
  /** The engine does not answer; the container is removed when it does again. */
  | { readonly kind: 'lost'; readonly reason: string }
