import { testKnowledge } from '@gantry/conformance/internal/knowledge'
import { memoryKnowledge } from './memory.ts'

testKnowledge('memory', async () => async (setup) => memoryKnowledge(setup))
