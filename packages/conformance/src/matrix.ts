import { appendFileSync } from 'node:fs'

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
