import assert from 'node:assert/strict'
import { appendFileSync } from 'node:fs'
import type { SandboxLimits } from '@gantry/contract'
import type { Outcome, Runtime, SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'

export type RuntimeAbility =
  | 'shell'
  | 'processes'
  | 'python'
  | 'javascript'
  | 'typescript'
  | 'bash'
  | 'c'
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

/** Asserts that a program ended by itself with this exit code; the failure message contains its stderr. */
export function assertExit({ exit, stderr, hit }: Outcome, code: number): void {
  assert.deepEqual({ exit, hit }, { exit: { code }, hit: undefined }, textOf(stderr.bytes).slice(0, 2_000))
}

/** One case of a runtime's suites, as the page of runtimes shows it. */
export interface MatrixCase {
  readonly runtime: string
  readonly suite: 'conformance' | 'attack'
  readonly title: string
  /** Of attacks. */
  readonly number?: number
  readonly end: 'passed' | 'blocked' | 'explained' | 'skipped' | 'failed'
  readonly reason?: string
}

/** Notes how a case ended, for docs/runtimes.md; nothing happens unless a run asks for the notes. */
export function noteCase(found: MatrixCase): void {
  const file = process.env.GANTRY_MATRIX
  if (file !== undefined && file !== '') appendFileSync(file, `${JSON.stringify(found)}\n`)
}
