import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createKubernetesRuntime } from '@gantry/sandbox-kubernetes'
import { fullImage } from './cluster.fixture.ts'
import { ownNamespace } from './own-namespace.fixture.ts'

const { kubeconfig } = await ownNamespace()

testRuntime('kubernetes', async () => ({ runtime: createKubernetesRuntime({ kubeconfig, image: fullImage }) }), {
  'javascript over tools': 'JavaScript over tools is in the wasm runtime',
})
