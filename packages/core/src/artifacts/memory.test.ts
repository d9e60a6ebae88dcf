import { test } from 'node:test'
import { testArtifacts } from '../conformance/artifacts.ts'
import { memoryArtifacts } from './memory.ts'

for (const [title, body] of Object.entries(testArtifacts)) {
  test(`memory: ${title}`, () =>
    body({
      artifacts: memoryArtifacts(),
      maker: async (identity) => ({ identity, callId: 'c1', fence: undefined }),
    }))
}
