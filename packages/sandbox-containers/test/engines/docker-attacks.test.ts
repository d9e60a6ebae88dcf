import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { createUnsafeHostRuntime } from '@gantry/sandbox'
import { createDockerRuntime } from '@gantry/sandbox-containers'
import { containerAttacks } from './container-attacks.fixture.ts'
import { dockerSocket } from './engines.fixture.ts'

testAttacks('docker', [...allAttacks, ...containerAttacks], async () => ({
  runtime: createDockerRuntime({ socket: dockerSocket() }),
  unguarded: createUnsafeHostRuntime(),
}))
