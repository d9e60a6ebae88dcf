import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createUnsafeHostRuntime } from './unsafe-host.ts'

testRuntime('unsafe_host', async () => ({ runtime: createUnsafeHostRuntime() }), {
  'javascript over tools': 'JavaScript over tools is in the wasm runtime',
  disk: 'the workspace is a folder of the host, where nothing holds a limit for all files together',
})
