/// What stands behind the handles of dit.h.
#pragma once

#include "dit/dit.h"
#include "exchange/exchange.hpp"
#include "layout/layout.hpp"
#include "wire/v_major.hpp"

struct dit_session {
  dit::ExchangeContext context;
  int transfers = 0;  // not freed yet: they use the context
};

struct dit_layout {
  dit::UlyssesLayout layout;
};

struct dit_v_major {
  dit::VMajorPolicy policy;
};
