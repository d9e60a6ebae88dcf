import { type TestContext, test } from 'node:test'

/** `quick` fits into `npm test`; `full` has as many calls and injections as the list of faults requires. */
export type Size = 'quick' | 'full'

/** One entry of the list of faults. */
export interface Fault {
  readonly number: number
  /** What holds under the fault. */
  readonly name: string
  run(t: TestContext, size: Size): Promise<void>
}

/** The seed of all random choices. */
export const seed = Number(process.env.GANTRY_SOAK_SEED ?? 20_261_115) % 1_000_000

/** The slowest faults, which only the soak runs; `npm test` keeps one or two of each kind. */
const slow: readonly number[] = [
  2, 3, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16, 17, 18, 19, 20, 21, 22, 23, 29, 30, 31, 32, 34, 36, 38, 39, 40, 41,
]

/** For `npm test`: all but the slowest. */
export function tryQuickly(faults: readonly Fault[]): void {
  tryFaults(
    faults.filter(({ number }) => !slow.includes(number)),
    'quick',
  )
}

/** For the soak: the slowest; with GANTRY_FAULTS=full all of them at full size, which takes a quarter of an hour. */
export function tryAtLength(faults: readonly Fault[]): void {
  if (process.env.GANTRY_FAULTS === 'full') tryFaults(faults, 'full')
  else
    tryFaults(
      faults.filter(({ number }) => slow.includes(number)),
      'quick',
    )
}

function tryFaults(faults: readonly Fault[], size: Size): void {
  for (const { number, name, run } of faults) {
    test(`fault ${number}: ${name}`, (t) => {
      t.diagnostic(`seed ${seed}`)
      return run(t, size)
    })
  }
}
