import { testRuntime } from '@gantry/conformance/internal/runtime'
import { lackingPrograms } from '@gantry/conformance/internal/sandbox-test'
import { createUnsafeHostRuntime } from './unsafe-host.ts'

testRuntime('unsafe_host', async () => ({ runtime: createUnsafeHostRuntime() }), {
  ...lackingPrograms,
  'javascript over tools': 'JavaScript over tools is in the wasm runtime',
  disk: 'the workspace is a folder of the host, where nothing holds a limit for all files together',
})
