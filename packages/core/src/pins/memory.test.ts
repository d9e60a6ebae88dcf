import { testPinStore } from '@gantry/conformance/internal/pin-store'
import { memoryPins } from './memory.ts'

testPinStore('memory pins', () => memoryPins())
