import { test } from 'node:test'
import { testRuntime } from '@gantry/conformance/internal/runtime'
import { lackingPrograms, noBubblewrap } from '@gantry/conformance/internal/sandbox-test'
import { startHost, withHost } from '../test-host.fixture.ts'
import { createRemoteRuntime } from './remote.ts'

if (noBubblewrap === undefined)
  testRuntime(
    'remote',
    async () => {
      const host = await startHost()
      return { runtime: withHost(createRemoteRuntime(host.remote), host) }
    },
    { ...lackingPrograms, 'javascript over tools': 'JavaScript over tools is in the wasm runtime' },
  )
else test('the remote runtime', { skip: noBubblewrap }, () => undefined)
