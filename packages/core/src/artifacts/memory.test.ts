import { test } from 'node:test'
import { testArtifacts } from '@gantry/conformance/internal/artifacts'
import { memoryArtifacts } from './memory.ts'

for (const [title, body] of Object.entries(testArtifacts)) {
  test(`memory: ${title}`, () =>
    body({
      artifacts: memoryArtifacts(),
      maker: async (identity) => ({ identity, callId: 'c1', fence: undefined }),
    }))
}
