import { simulate } from '../../packages/service/test/simulator/simulate.ts'

/** Outside of the test runner, whose hooks make code that mostly waits four times as slow. Prints what is broken. */
const [first = 1, count = 0] = process.argv.slice(2).map(Number)
for (let seed = first; seed < first + count; seed++) {
  const broken = await simulate(seed)
  if (broken.length > 0) console.log(`seed ${seed}: ${JSON.stringify(broken)}`)
}
process.exit()
