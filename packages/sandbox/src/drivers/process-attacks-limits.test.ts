import { test } from 'node:test'
import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { noBubblewrap } from '@gantry/conformance/internal/sandbox-test'
import { createProcessRuntime } from './process.ts'
import { createUnsafeHostRuntime } from './unsafe-host.ts'

testAttacks(
  'process',
  (noBubblewrap === undefined ? allAttacks : []).filter(({ number }) => number > 45),
  async () => ({ runtime: createProcessRuntime(), unguarded: createUnsafeHostRuntime() }),
)
if (noBubblewrap !== undefined) test('attacks on the process runtime', { skip: noBubblewrap }, () => undefined)
