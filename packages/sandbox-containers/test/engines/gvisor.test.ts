import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createGvisorRuntime } from '@gantry/sandbox-containers'
import { dockerSocket, fullImage } from './engines.fixture.ts'

testRuntime('gvisor', async () => ({ runtime: createGvisorRuntime({ socket: dockerSocket(), image: fullImage }) }), {
  'javascript over tools': 'JavaScript over tools is in the wasm runtime',
})
