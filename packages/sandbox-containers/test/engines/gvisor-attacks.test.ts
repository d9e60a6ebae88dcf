import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { createUnsafeHostRuntime } from '@gantry/sandbox'
import { createGvisorRuntime } from '@gantry/sandbox-containers'
import { containerAttacks } from './container-attacks.fixture.ts'
import { dockerSocket } from './engines.fixture.ts'

testAttacks('gvisor', [...allAttacks, ...containerAttacks], async () => ({
  runtime: createGvisorRuntime({ socket: dockerSocket() }),
  unguarded: createUnsafeHostRuntime(),
}))
