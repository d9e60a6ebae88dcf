import { allAttacks } from '@gantry/conformance/internal/attacks/all'
import { testAttacks } from '@gantry/conformance/internal/attacks/attack'
import { createProcessRuntime, createUnsafeHostRuntime } from '@gantry/sandbox'
import { createRemoteRuntime } from '@gantry/sandbox-remote'
import { startHost, withHost } from '../../src/test-host.fixture.ts'

testAttacks('remote', allAttacks, async () => {
  // Without waiting sandboxes: attacks look for what a sandbox leaves behind.
  const host = await startHost({}, [createProcessRuntime()], { pool: false })
  return { runtime: withHost(createRemoteRuntime(host.remote), host), unguarded: createUnsafeHostRuntime() }
})
