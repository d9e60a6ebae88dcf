import { testCallStore } from '../../conformance/call-store.ts'
import { memoryFixture } from './memory.fixture.ts'

testCallStore('memory', async () => memoryFixture)
