import { testSecretSource } from '@gantry/conformance/internal/secret-source'
import { memorySecrets } from './memory.ts'

testSecretSource('memory', () => memorySecrets({ api: 'correct-horse' }))
