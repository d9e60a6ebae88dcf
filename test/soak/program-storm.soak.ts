import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seed } from '../faults/fault.ts'
import { type ProgramStormOptions, programStorm } from '../faults/program-storm.ts'

/** A hundred kills together; an embedded database, and Python, have the slower start. */
const storms: readonly Omit<ProgramStormOptions, 'seed'>[] = [
  { engine: 'pglite', workers: 1, kills: 10, lifeMs: 500, language: 'javascript' },
  { engine: 'postgres', workers: 2, kills: 80, lifeMs: 500, language: 'javascript' },
  { engine: 'postgres', workers: 2, kills: 10, lifeMs: 1_500, language: 'python' },
]

for (const storm of storms) {
  const { engine, workers, kills, language } = storm
  test(`${language} programs of 50 calls survive ${kills} kills, each effect once: ${engine}, ${workers} at work`, async (t) => {
    const counts = await programStorm(t, { ...storm, seed })
    assert.ok(counts.attempts >= counts.programs + counts.kills / 2, 'too few were killed in the middle')
  })
}
