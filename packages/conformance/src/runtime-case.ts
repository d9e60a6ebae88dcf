import assert from 'node:assert/strict'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, Runtime, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'

export type RuntimeAbility =
  | 'shell'
  | 'processes'
  | 'python'
  | 'javascript'
  | 'typescript'
  | 'bash'
  | 'disk'
  | 'python over tools'
  | 'javascript over tools'

/** One case of the suite: the abilities it needs, and what must hold. */
export interface RuntimeCase {
  readonly title: string
  readonly needs: readonly RuntimeAbility[]
  check(bench: RuntimeBench): Promise<void>
}

export interface RuntimeBench {
  readonly runtime: Runtime
  run(job: SandboxJob, limits?: Partial<SandboxLimits>, spec?: Partial<SandboxSpec>): Promise<Outcome>
}

export function textOf(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes)
}

/** That a program ended by itself with this exit code; what it wrote to stderr helps where it did not. */
export function assertExit({ exit, stderr, hit }: Outcome, code: number): void {
  assert.deepEqual({ exit, hit }, { exit: { code }, hit: undefined }, textOf(stderr.bytes).slice(0, 2_000))
}
