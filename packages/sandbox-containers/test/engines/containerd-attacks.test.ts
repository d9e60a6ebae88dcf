import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { createUnsafeHostRuntime } from '@gantry/sandbox'
import { createContainerdRuntime } from '@gantry/sandbox-containers'
import { containerdOwnAttacks } from './containerd-own-attacks.fixture.ts'
import { containerd } from './engines.fixture.ts'

testAttacks('containerd', [...allAttacks, ...containerdOwnAttacks], async () => ({
  runtime: createContainerdRuntime(containerd()),
  unguarded: createUnsafeHostRuntime(),
}))
