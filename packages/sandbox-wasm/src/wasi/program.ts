import type { SandboxLimit } from '@gantry/contract'
import type { Outlet } from '../channel/outlet.ts'
import type { Workspace } from '../guest/workspace.ts'
import type { Descriptors } from './descriptors.ts'
import type { GuestMemory } from './guest-memory.ts'
import type { ModuleClock } from './module-clock.ts'

/** What the calls of one module work on. */
export interface ModuleProgram {
  readonly memory: GuestMemory
  readonly descriptors: Descriptors
  readonly workspace: Workspace
  readonly clock: ModuleClock
  readonly outlet: Outlet
  readonly stdin: Uint8Array
  readonly argv: readonly string[]
  readonly env: readonly string[]
  random(bytes: Uint8Array): void
}

/** Calls by their names. Each gives an error number, or nothing for success; numbers of 64 bits are BigInts. */
export interface Calls {
  // biome-ignore lint/suspicious/noConfusingVoidType: most calls have nothing to say
  readonly [name: string]: (...values: never[]) => number | undefined | void
}

/** Thrown through the module to end it. */
export class ModuleEnd {
  readonly exitCode: number
  readonly hit: SandboxLimit | undefined

  constructor(exitCode: number, hit?: SandboxLimit) {
    this.exitCode = exitCode
    this.hit = hit
  }
}
