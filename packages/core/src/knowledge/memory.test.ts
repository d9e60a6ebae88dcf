import { testKnowledge } from '../conformance/knowledge.ts'
import { memoryKnowledge } from './memory.ts'

testKnowledge('memory', async () => async (setup) => memoryKnowledge(setup))
