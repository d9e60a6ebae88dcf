import { simulate } from '../../packages/service/test/simulator/simulate.ts'

/** Runs outside the test runner, whose async hooks make it four times slower; prints the broken invariants. */
const [first = 1, count = 0] = process.argv.slice(2).map(Number)
for (let seed = first; seed < first + count; seed++) {
  const broken = await simulate(seed)
  if (broken.length > 0) console.log(`seed ${seed}: ${JSON.stringify(broken)}`)
}
process.exit()
