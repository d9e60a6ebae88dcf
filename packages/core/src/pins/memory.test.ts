import { testPinStore } from '@gantry/conformance/internal/host-ports'
import { memoryPins } from './memory.ts'

testPinStore('memory pins', () => memoryPins())
