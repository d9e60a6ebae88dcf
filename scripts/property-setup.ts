import { isMainThread } from 'node:worker_threads'
import { leavePromisesUntracked } from './promise-tracking.ts'

/**
 * Loaded before each test file: property tests use the same cases in every run, so that a red run can be repeated.
 * The soak looks for new cases, from a seed that it prints. Threads of the tested code load it too, and run no tests.
 */
if (isMainThread) {
  leavePromisesUntracked()
  // The runner reports only the message of an uncaught error.
  process.on('unhandledRejection', (reason) => console.error('Unhandled rejection:', reason))
  process.on('uncaughtExceptionMonitor', (error) => console.error('Uncaught exception:', error))
  const { default: fc } = await import('fast-check')
  const seed = process.env.GANTRY_SOAK_SEED
  const numRuns = Math.ceil(3_000 * Number(process.env.GANTRY_SOAK_SHARE ?? 1))
  fc.configureGlobal(seed === undefined ? { seed: 20_261_115 } : { seed: Number(seed), numRuns })
}
