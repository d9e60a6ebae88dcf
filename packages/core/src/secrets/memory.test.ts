import { testSecretSource } from '@gantry/conformance/internal/host-ports'
import { memorySecrets } from './memory.ts'

testSecretSource('memory', () => memorySecrets({ api: 'correct-horse' }))
