import assert from 'node:assert/strict'
import { test } from 'node:test'
import { seed } from '../faults/fault.ts'
import { type ProgramStormOptions, programStorm } from '../faults/program-storm.ts'
import { shareOf } from './share.ts'

/** A hundred kills in all, fewer where the start is slow: the embedded database and Python. */
const storms: readonly Omit<ProgramStormOptions, 'seed'>[] = [
  { engine: 'pglite', workers: 1, kills: shareOf(10), lifeMs: 500, language: 'javascript' },
  { engine: 'postgres', workers: 2, kills: shareOf(80), lifeMs: 500, language: 'javascript' },
  { engine: 'postgres', workers: 2, kills: shareOf(10), lifeMs: 1_500, language: 'python' },
]

for (const storm of storms) {
  const { engine, workers, kills, language } = storm
  test(`${language} programs of 50 calls survive ${kills} kills with each effect once: ${engine}, ${workers} workers`, async (t) => {
    const counts = await programStorm(t, { ...storm, seed })
    assert.ok(counts.attempts >= counts.programs + counts.kills / 2, 'too few were killed in the middle')
  })
}
