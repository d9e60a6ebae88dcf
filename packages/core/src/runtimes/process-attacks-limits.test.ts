import { allAttacks } from '../conformance/attacks/all.ts'
import { testAttacks } from '../conformance/attacks/run.ts'
import { createProcessRuntime } from './process.ts'
import { createUnsafeHostRuntime } from './unsafe-host.ts'

testAttacks(
  'process',
  allAttacks.filter(({ number }) => number > 45),
  async () => ({ runtime: createProcessRuntime(), unguarded: createUnsafeHostRuntime() }),
)
