import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createContainerdRuntime } from '@gantry/sandbox-containers'
import { containerd, fullImage } from './engines.fixture.ts'

testRuntime('containerd', async () => ({ runtime: createContainerdRuntime({ ...containerd(), image: fullImage }) }), {
  'javascript over tools': 'JavaScript over tools is in the wasm runtime',
})
