import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createGvisorRuntime } from '@gantry/sandbox-containers'
import { containerd, fullImage } from './engines.fixture.ts'

testRuntime(
  'gvisor through containerd',
  async () => ({ runtime: createGvisorRuntime({ engine: 'containerd', ...containerd(), image: fullImage }) }),
  { 'javascript over tools': 'JavaScript over tools is in the wasm runtime' },
)
