import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { createUnsafeHostRuntime } from '@gantry/sandbox'
import { newTarget, startRuntime } from './temporal.fixture.ts'

// Without waiting sandboxes: attacks look for what a sandbox leaves behind.
testAttacks('temporal', allAttacks, async () => ({
  runtime: await startRuntime(newTarget(), false),
  unguarded: createUnsafeHostRuntime(),
}))
