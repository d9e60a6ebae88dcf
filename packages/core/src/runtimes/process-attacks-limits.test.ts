import { test } from 'node:test'
import { allAttacks } from '../conformance/attacks/all.ts'
import { testAttacks } from '../conformance/attacks/run.ts'
import { noBubblewrap } from '../conformance/sandbox-test.ts'
import { createProcessRuntime } from './process.ts'
import { createUnsafeHostRuntime } from './unsafe-host.ts'

testAttacks(
  'process',
  (noBubblewrap === undefined ? allAttacks : []).filter(({ number }) => number > 45),
  async () => ({ runtime: createProcessRuntime(), unguarded: createUnsafeHostRuntime() }),
)
if (noBubblewrap !== undefined) test('attacks on the process runtime', { skip: noBubblewrap }, () => undefined)
