import { testRuntime } from '@gantry/conformance/internal/runtime'
import { createQemuRuntime } from '@gantry/sandbox-microvm'
import { qemuOptions } from './machines.fixture.ts'

/** An emulated Node starts in seconds, and in many on a busy machine. */
const slow = { wallMs: 55_000, cpuMs: 55_000 }

testRuntime(
  'qemu',
  async () => ({ runtime: createQemuRuntime(qemuOptions()) }),
  {
    c: 'Under emulation a compiler takes longer than the limits of the suite; the image of the tests has none.',
    'javascript over tools': 'JavaScript over tools is in the wasm runtime',
  },
  slow,
)
