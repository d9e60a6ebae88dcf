import { testSecretSource } from '../conformance/secret-source.ts'
import { memorySecrets } from './memory.ts'

testSecretSource('memory', () => memorySecrets({ api: 'correct-horse' }))
