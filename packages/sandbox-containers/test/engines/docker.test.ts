import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createDockerRuntime } from '@gantry/sandbox-containers'
import { dockerSocket, fullImage } from './engines.fixture.ts'

testRuntime('docker', async () => ({ runtime: createDockerRuntime({ socket: dockerSocket(), image: fullImage }) }), {
  'javascript over tools': 'JavaScript over tools is in the wasm runtime',
})
